"""``semantic-extproc evidence``: the records behind verdicts and changes of state."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import quote, urlencode

import typer

from extproc.cli.admin import Admin, Api, Refused, Unreachable, leave, unit_ids
from extproc.cli.inspect import AsJson, Output, terminal
from extproc.cli.status import STYLES


def evidence(
    id: str | None = typer.Argument(None, metavar="[ID]", help="One record; the latest without."),
    unit: str = typer.Option("", "--unit", "-u", autocompletion=unit_ids, help="Of this unit."),
    limit: int = typer.Option(20, "--limit", "-n", min=1, max=1000, help="How many at most."),
    output: Output = typer.Option(
        Output.TABLE, "--output", "-o", help="For people, or JSON (a line a record)."
    ),
    as_json: bool = AsJson,
    admin: str = Admin,
) -> None:
    """Show one record of evidence, or the latest ones, newest first.

    Exit codes: 0 shown, 1 there is no such record, 2 no sidecar answers.
    """
    api = Api(admin)
    try:
        if id is not None:
            records = [api.get(f"/api/evidence/{quote(id, safe='')}")]
        else:
            query = urlencode({"unit": unit, "limit": limit})
            records = api.get(f"/api/evidence?{query}")["evidence"]
    except (Unreachable, Refused) as problem:
        leave(problem)
    output = Output.JSON if as_json else output
    if output is Output.JSON:
        for record in records:
            typer.echo(json.dumps(record))
    elif id is not None:
        terminal().print(one(records[0]))
    else:
        terminal().print(many(records))


def one(record: dict[str, Any]) -> Any:
    """Everything that one record says."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, show_header=False)
    made.add_column(style="bold")
    made.add_column()
    shown = {name: value for name, value in record.items() if value not in (None, "", 0, [])}
    for name, value in shown.items():
        if name in ("at", "sample_until"):
            value = _time(value)
        elif name == "findings":
            value = "\n".join(_say(finding) for finding in value)
        made.add_row(name, Text(str(value), style=STYLES.get(str(value), "")))
    return made


def many(records: list[dict[str, Any]]) -> Any:
    """Records, one a row."""
    from rich.table import Table
    from rich.text import Text

    if not records:
        return Text("no evidence is kept yet")
    made = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("id", "time", "unit", "class", "host", "what", "why"):
        made.add_column(title)
    for record in records:
        after = record["after"]
        what = f"{record['before']} -> {after}" if after else record["verdict"]
        if record["subject"] == "verification":
            what = f"fallback {record['release']}"
        why = [record["cause"]] if record["cause"] else []
        why += [f"{finding['detector']}.{finding['reason']}" for finding in record["findings"]]
        made.add_row(
            Text(record["id"], style="bold"),
            _time(record["at"]),
            Text(record["unit"]),
            Text(record["context"]),
            Text(record["host"]),
            Text(what, style=STYLES.get(after or "", "")),
            Text("; ".join(why)),
        )
    return made


def _say(finding: dict[str, Any]) -> str:
    value, threshold = (_number(finding[name]) for name in ("value", "threshold"))
    said = f"{finding['detector']}.{finding['reason']} {value} (limit {threshold})"
    return f"{said}: {finding['shape']}" if finding.get("shape") else said


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:g}"


def _time(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
