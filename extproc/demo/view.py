"""What people see: a live table on a terminal, plain lines elsewhere. All of it on stderr."""

from __future__ import annotations

from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from extproc.demo.board import Board
from extproc.demo.summary import Summary

_COLOURS = {"pass": "green", "observe": "yellow", "quarantine": "red"}


class View(Protocol):
    """Use as a context manager."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def say(self, text: str, strong: bool = False) -> None:
        """One line, for good."""

    def show(self, board: Board, elapsed: float, seconds: float, phase: str) -> None:
        """The state of things; replaces what was shown before."""


class LiveView:
    """A table that is drawn anew, lines that stay above it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(40),
            TextColumn("{task.fields[clock]}"),
            console=console,
        )
        self._task: TaskID | None = None
        self._live = Live(console=console, auto_refresh=False, transient=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def say(self, text: str, strong: bool = False) -> None:
        line = Text(text, style="bold" if strong else "")
        for state, colour in _COLOURS.items():
            line.highlight_words([f"-> {state}"], f"bold {colour}")
        self._console.print(line)

    def show(self, board: Board, elapsed: float, seconds: float, phase: str) -> None:
        if self._task is None:
            self._task = self._progress.add_task(phase, total=seconds, clock="")
        clock = f"{elapsed:.0f} of {seconds:.0f} s"
        self._progress.update(self._task, description=phase, completed=elapsed, clock=clock)
        self._live.update(Group(_table(board), _totals(board), self._progress), refresh=True)


class PlainView:
    """Lines for a log; the state of things every few seconds."""

    EVERY = 5.0
    """Seconds between two lines on the state of things."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def say(self, text: str, strong: bool = False) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def show(self, board: Board, elapsed: float, seconds: float, phase: str) -> None:
        if elapsed >= self._next:
            self._next = elapsed + self.EVERY
            self.say(f"[{elapsed:4.0f} s] {phase}: {_totals(board).plain}")


def choose_view(console: Console) -> View:
    """The view that suits where the output goes."""
    return LiveView(console) if console.is_terminal else PlainView(console)


def _table(board: Board) -> Table:
    table = Table(title="deployment units", title_justify="left")
    table.add_column("unit")
    for name in ("release", "state", "requests", "corrupt seen", "retried elsewhere"):
        table.add_column(name, justify="right" if name not in ("release", "state") else "left")
    table.add_column("corrupt delivered", justify="right")
    table.add_column("Envoy", overflow="fold")
    for unit, row in board.rows.items():
        status = row.status
        table.add_row(
            unit,
            status.release,
            Text(status.state, style=_COLOURS.get(status.state, "")),
            str(row.requests),
            str(status.corrupt),
            str(status.marked),
            str(board.tally.corrupt_by_unit[unit]),
            Text("".join(f"/{flag}" for flag in sorted(row.flags)) or "healthy", style="cyan"),
        )
    return table


def _totals(board: Board) -> Text:
    tally = board.tally
    return Text(
        f"requests {tally.requests}, retried on the other unit {board.retries}, "
        f"corrupt delivered {tally.corrupt_delivered}, errors {tally.errors}"
    )


def closing(summary: Summary) -> RenderableType:
    """The summary for people, and what to try next."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in summary.as_dict().items():
        if value not in ("", None) and name != "kept":  # the next line says it
            table.add_row(name.replace("_", " "), str(value))
    verdict = (
        Text("The corrupt release answered, and no client saw it.", style="bold green")
        if summary.kept
        else Text("The promise was not kept: see the figures above.", style="bold red")
    )
    return Group(Text(), table, Text(), verdict, Text(), _NEXT)


_NEXT = Text(
    "Next:\n"
    "  semantic-extproc demo --upstream recorded   more shapes of the fault, no model needed\n"
    "  semantic-extproc demo --keep                keeps the logs: Envoy's show both attempts\n"
    "  envoy/standalone/                           the configuration that ran, for your own units"
)
