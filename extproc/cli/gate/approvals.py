"""``semantic-extproc gate approve`` and ``releases``: what was run, and who approved it."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from extproc.cli.admin import operator
from extproc.cli.gate.options import How, State
from extproc.cli.gate.running import open_store, unusable
from extproc.cli.inspect import AsJson, Output, terminal


def approve(
    release: str = typer.Argument(..., metavar="RELEASE", help="Id of a release that was run."),
    reason: str = typer.Option(..., "--reason", "-r", help="Why; it is kept for the record."),
    by: str = typer.Option("", "--by", help="Who approves; by default who runs the command."),
    state: Path | None = State,
) -> None:
    """Approve a release: its execution path, its known fallbacks and its numbers become what later
    releases of its model are held against.

    The approval is appended to approvals.jsonl in the state folder, with who, when and why.

    Exit codes: 0 done, 1 no run of this release is on record, 2 some input is unusable.
    """
    from extproc.gates.store import StoreTrouble

    store = open_store(state)
    reason, by = " ".join(reason.split()), " ".join(by.split()) or operator()
    if not reason:
        unusable(["--reason: must say why"])
    if not by:
        unusable(["--by: the system does not know who you are; say it"])
    try:
        approval = store.approve(release, by, reason)
    except LookupError:
        known = ", ".join(store.releases()) or "none"
        typer.echo(
            f"semantic-extproc: no run of release {release!r} is on record in {store.folder}; "
            f"on record: {known}",
            err=True,
        )
        raise typer.Exit(1) from None
    except StoreTrouble as error:
        unusable([str(error)])
    record = approval.record
    typer.echo(f"release {release} is approved by {by}: {reason}")
    typer.echo(f"  its last run, {record.at}: {record.result}")
    for name, value in record.path.items():
        typer.echo(f"  {name} = {value}")
    for alarm in record.alarms:
        typer.echo(f"  known fallback: {alarm}")


def releases(state: Path | None = State, output: Output = How, as_json: bool = AsJson) -> None:
    """List the releases on record, their execution paths, and who approved them.

    Exit codes: 0 done, 2 the folder is unusable.
    """
    from extproc.gates.store import StoreTrouble

    store = open_store(state)
    try:
        records = [store.record(name) for name in store.releases()]
        approvals = store.approvals()
    except StoreTrouble as error:
        unusable([str(error)])
    output = Output.JSON if as_json else output
    if output is Output.JSON:
        content = {
            "releases": [
                {name: value for name, value in r.as_dict().items() if name != "reference"}
                for r in records
                if r is not None
            ],
            "approvals": [
                {"release": a.record.release, "by": a.by, "at": a.at, "reason": a.reason}
                for a in approvals
            ],
        }
        typer.echo(json.dumps(content, indent=2))
        return
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("release", "model", "last run", "execution path", "approved"):
        made.add_column(title)
    for record in records:
        if record is None:
            continue
        said = [
            f"{a.at[:10]} {a.by}: {a.reason}"
            for a in approvals
            if a.record.release == record.release
        ]
        made.add_row(
            Text(record.release, style="bold"),
            Text(record.model),
            Text(f"{record.at}\n{record.result}"),
            Text("\n".join(f"{name} = {value}" for name, value in record.path.items())),
            Text("\n".join(said) or "no"),
        )
    terminal().print(made if made.rows else Text(f"no release is on record in {store.folder}"))
