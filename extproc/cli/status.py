"""``semantic-extproc status``: what state every unit is in."""

from __future__ import annotations

import json
import time
from typing import Any

import typer

from extproc.cli.admin import Admin, Api, Refused, Unreachable, leave
from extproc.cli.inspect import AsJson, Output, terminal

STYLES = {"pass": "green", "observe": "yellow", "quarantine": "bold red"}


def status(
    admin: str = Admin,
    watch: bool = typer.Option(False, "--watch", "-w", help="Show it again and again."),
    every: float = typer.Option(
        2.0, "--every", min=0.2, max=3600.0, metavar="SECONDS", help="How often, with --watch."
    ),
    output: Output = typer.Option(
        Output.TABLE, "--output", "-o", help="A table for people, or JSON (a line a look)."
    ),
    as_json: bool = AsJson,
) -> None:
    """Show the state of every unit that the sidecar knows.

    Exit codes: 0 nothing is quarantined, 1 something is, 2 no sidecar answers.
    """
    api, output = Api(admin), Output.JSON if as_json else output
    if watch:
        raise typer.Exit(_watch(api, every, output))
    try:
        units = api.get("/api/units")["units"]
    except (Unreachable, Refused) as problem:
        leave(problem)
    if output is Output.JSON:
        typer.echo(json.dumps({"units": units}, indent=2))
    else:
        terminal().print(table(units, time.time()))
    raise typer.Exit(code(units))


def code(units: list[dict[str, Any]]) -> int:
    """The exit code: 1 when a unit, a class or a host of it is out."""
    return int(
        any(
            unit["state"] == "quarantine"
            or any(entry["state"] == "quarantine" for entry in unit["classes"].values())
            or any(host.get("drained") for host in unit.get("hosts", {}).values())
            for unit in units
        )
    )


def _watch(api: Api, every: float, output: Output) -> int:
    """Until Ctrl-C. A sidecar that is gone for a while is said, and waited for."""
    from rich.live import Live
    from rich.text import Text

    last = 2
    live = Live(console=terminal(), auto_refresh=False) if output is Output.TABLE else None
    try:
        if live is not None:
            live.start()
        while True:
            shown: Any
            try:
                units = api.get("/api/units")["units"]
                last, shown = code(units), table(units, time.time())
            except (Unreachable, Refused) as problem:
                units, last, shown = None, 2, Text(str(problem), style="red")
            if live is not None:
                live.update(shown, refresh=True)
            elif units is not None:
                typer.echo(json.dumps({"at": time.time(), "units": units}))
            else:
                typer.echo(f"semantic-extproc: {shown}", err=True)
            time.sleep(every)
    except KeyboardInterrupt:
        return last
    finally:
        if live is not None:
            live.stop()


def table(units: list[dict[str, Any]], now: float) -> Any:
    """All units, one a row. ``now`` is Unix time."""
    from rich.table import Table
    from rich.text import Text

    if not units:
        return Text("no unit is configured, and none has answered yet")
    made = Table(box=None, pad_edge=False, header_style="bold")
    titles = ["unit", "release", "state", "hosts", "classes", "e-value", "answers", "since"]
    probed = any(unit.get("probes") for unit in units)
    for title in (*titles, "probes") if probed else titles:
        made.add_column(title, justify="right" if title == "e-value" else "left")
    made.add_column("held by operator")
    for unit in units:
        state = unit["state"]
        shown = f"{state} ({unit['mode']})" if unit["mode"] else state
        made.add_row(
            Text(unit["id"], style="bold"),
            Text(unit["release"]),
            Text(shown, style=STYLES.get(state, "")),
            _hosts(unit.get("hosts", {})),
            _classes(unit["classes"]),
            f"{max((c['e_value'] for c in unit['classes'].values()), default=0.0):.3g}",
            _counts(unit["counts"]),
            _ago(unit.get("since"), now),
            *([_probes(unit.get("probes"), now)] if probed else []),
            Text(unit["held_by_operator"] or ""),
        )
    return made


def _hosts(hosts: dict[str, dict[str, Any]]) -> Any:
    from rich.text import Text

    drained = [name for name, host in hosts.items() if host.get("drained")]
    text = Text(str(len(hosts)) if hosts else "")
    if drained:
        text.append(f", drained: {', '.join(drained)}", style=STYLES["quarantine"])
    return text


def _classes(classes: dict[str, dict[str, Any]]) -> Any:
    from rich.text import Text

    parts = [
        Text(f"{name} {entry['state']}", style=STYLES.get(entry["state"], ""))
        for name, entry in classes.items()
    ]
    return Text("\n").join(parts)


def _counts(counts: dict[str, int]) -> str:
    found = [f"{number} {kind}" for kind, number in counts.items() if number]
    return ", ".join(found) or "none"


def _probes(summary: dict[str, Any] | None, now: float) -> Any:
    """How the probes of the present release came out, and when the last of them was."""
    from rich.text import Text

    if not summary:
        return Text("")
    text = Text()
    for outcome, style in (("passed", ""), ("failed", "bold red"), ("error", "yellow")):
        if summary[outcome]:
            text.append(f"{', ' if text else ''}{summary[outcome]} {outcome}", style=style)
    if not text:
        return Text("none yet")
    return text.append(f", {_ago(summary['at'], now)} ago")


def _ago(since: float | None, now: float) -> str:
    if not since:
        return ""
    seconds = max(0.0, now - since)
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"
