"""A table for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from extproc.gates.outcome import Status
from extproc.gates.run import Report

STYLES = {
    Status.PASSED: "green",
    Status.FAILED: "bold red",
    Status.UNDECIDED: "yellow",
    Status.SKIPPED: "dim",
    Status.MISSED: "yellow",
}


def table(report: Report) -> Iterator[Any]:
    """What is to be printed, piece by piece."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("gate", "check", "result", "time", "what was seen"):
        made.add_column(title, justify="right" if title == "time" else "left", overflow="fold")
    for gate in report.gates:
        first = True
        for check in gate.checks:
            made.add_row(
                Text(gate.name if first else "", style="bold"),
                Text(check.name),
                Text(check.status.value, style=STYLES[check.status]),
                Text(f"{check.seconds:.1f} s"),
                Text(check.reason),
            )
            first = False
    yield made
    yield Text()
    for note in report.subject.notes:
        yield Text(f"note: {note}", style="yellow")
    if report.rollback:
        names = ", ".join(condition.value for condition in report.rollback)
        yield Text(f"rollback: {names}", style="bold red")
    for delivery in report.deliveries:
        said = f"  {delivery.receiver}: {delivery.outcome}"
        yield Text(said + (f" ({delivery.reason})" if delivery.reason else ""))
    line = Text(f"release {report.subject.release}: ")
    line.append(report.status.value, style=STYLES[report.status])
    yield line
