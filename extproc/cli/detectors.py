"""``semantic-extproc detectors``: the catalogue."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict

import typer

from extproc.cli.inspect import AsJson, Output, terminal


def detectors(
    output: Output = typer.Option(
        Output.TABLE, "--output", "-o", help="A table for people, or one JSON line a detector."
    ),
    as_json: bool = AsJson,
) -> None:
    """List the detectors: what each reads, its reasons, its thresholds and where they come from."""
    from extproc.detect import entries

    output = Output.JSON if as_json else output
    if output is Output.JSON:
        for entry in entries():
            typer.echo(json.dumps(asdict(entry)))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("detector", "reads", "what it is for", "thresholds"):
        table.add_column(title)
    for entry in entries():
        about = f"{entry.about}\n{entry.reasons}" if entry.reasons else entry.about
        thresholds = "\n".join(_flat(entry.thresholds))
        table.add_row(Text(entry.name, style="bold"), entry.reads, Text(about), Text(thresholds))
        table.add_row()
    terminal().print(table)


def _flat(values: Mapping[str, object], prefix: str = "") -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name} = {value}"
