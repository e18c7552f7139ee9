"""How gate commands run gates, and say what came out."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Awaitable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import typer

from extproc.cli.inspect import Output, terminal

if TYPE_CHECKING:
    from extproc.gates.assemble import Inputs
    from extproc.gates.outcome import Check
    from extproc.gates.plan import Gate, Planned
    from extproc.gates.run import Report
    from extproc.gates.store import Store

INTERRUPTED = 130

T = TypeVar("T")


def run_gates(
    settings: Path,
    config: Path,
    options: Any,
    store: Store,
    output: Output,
    fallback: bool = False,
) -> Report:
    """The report of a run, of the fallback's server if ``fallback``.

    Exits with 2 on unusable input, with 130 when interrupted.
    """
    from extproc.gates.assemble import gather, run
    from extproc.gates.reading import UnusableInput, read_settings, read_targets
    from extproc.gates.store import StoreTrouble

    problems: list[str] = []
    read: list[Any] = []
    for reader, path in ((read_settings, settings), (read_targets, config)):
        try:
            read.append(reader(path))
        except UnusableInput as error:
            problems += error.problems
    if problems:
        unusable(problems)
    targets = read[1].of_fallback() if fallback else read[1]
    try:
        inputs: Inputs = gather(read[0], targets, options)
    except UnusableInput as error:
        unusable(error.problems)
    with ExitStack() as stack:
        watcher = _Watcher(stack, quiet=output is Output.JSON)
        try:
            return asyncio.run(_until_signalled(run(inputs, store, watcher), watcher))
        except StoreTrouble as error:
            unusable([str(error)])
        except UnusableInput as error:
            unusable(error.problems)
        except asyncio.CancelledError:
            stack.close()
            typer.echo(
                "semantic-extproc: interrupted; what is finished is kept: run it again with "
                "--resume",
                err=True,
            )
            raise typer.Exit(INTERRUPTED) from None


async def _until_signalled(work: Awaitable[T], watcher: _Watcher) -> T:
    """Runs ``work``. A signal ends it; while a rollback is called for, only a second one does."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    asked = 0

    def end() -> None:
        nonlocal asked
        asked += 1
        if asked > 1 or not watcher.finished:
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    return await task


SILENCE = 10.0
"""Seconds after which a log is told that a check still runs: a server may take minutes to load."""


class _Watcher:
    """Progress on standard error: a bar on a terminal, else a line for each finished check."""

    def __init__(self, stack: ExitStack, quiet: bool) -> None:
        self.finished = False
        self._quiet = quiet
        self._bar: Any = None
        self._late: asyncio.TimerHandle | None = None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = stack.enter_context(
                Progress(
                    TextColumn("{task.fields[what]}"),
                    BarColumn(),
                    TextColumn("{task.completed}/{task.total}"),
                    TimeElapsedColumn(),
                    console=Console(stderr=True),
                    transient=True,
                )
            )
            self._task = self._bar.add_task("", total=None, what="")

    def began(self, gate: Gate, planned: Planned, done: int, total: int) -> None:
        if self._bar is not None:
            self._bar.update(
                self._task, total=total, completed=done, what=f"{gate.name}: {planned.name}"
            )
        elif not self._quiet:
            said = f"{gate.name}: {planned.name}: still running"
            loop = asyncio.get_running_loop()
            self._late = loop.call_later(SILENCE, lambda: typer.echo(said, err=True))

    def ended(self, gate: Gate, check: Check, resumed: bool) -> None:
        if gate.number == 0:
            self.finished = True  # the last gate: what follows is the rollback
        if self._late is not None:
            self._late.cancel()
        if self._bar is None and not self._quiet:
            when = "resumed" if resumed else f"{check.seconds:.1f} s"
            typer.echo(f"{gate.name}: {check.name}: {check.status.value} ({when})", err=True)


def write_report(report: Report, output: Output, junit: Path | None, markdown: Path | None) -> None:
    """Prints the report, and writes the files that were asked for."""
    from extproc.gates import report as forms

    if output is Output.JSON:
        typer.echo(json.dumps(report.as_dict(), indent=2, allow_nan=False))
    else:
        console = terminal()
        for piece in forms.table(report):
            console.print(piece)
    for path, form in ((junit, forms.junit), (markdown, forms.markdown)):
        if path is None:
            continue
        try:
            path.write_text(form(report), encoding="utf-8")
        except OSError as error:
            unusable([f"{path}: cannot be written: {error.strerror or error}"])


def gate_numbers(text: str) -> frozenset[int]:
    """The gates that ``--gates`` names; exits with 2 if it names none."""
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*([1-5])\s*(?:-\s*([1-5])\s*)?", part)
        if match is None or (match[2] and match[2] < match[1]):
            unusable([f"--gates: {part.strip()!r} is no gate; write 1-3, or 2,4, or 5"])
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(found)


def open_store(state: Path | None) -> Store:
    """The folder that was named, or the user's own."""
    from extproc.gates.store import Store

    if state is not None:
        return Store(state)
    given = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
    home = os.environ.get("XDG_STATE_HOME")
    try:
        base = Path(given or Path(home or Path.home() / ".local/state") / "semantic-extproc")
        (base / "gates").mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:
        # Nobody asked for this folder: without one a run is still a run.
        typer.echo(
            f"semantic-extproc: nothing is kept of this run ({error}); --state names a folder",
            err=True,
        )
        return Store(Path(_forgotten().name))
    return Store(base / "gates")


@cache
def _forgotten() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="semantic-extproc-gates-")


def unusable(problems: list[str]) -> NoReturn:
    """Says what is wrong with the input, and exits with 2."""
    for problem in problems:
        typer.echo(problem, err=True)
    raise typer.Exit(2)
