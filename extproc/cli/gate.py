"""``semantic-extproc gate``: the release gates."""

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

from extproc.cli.admin import Admin, Api, Refused, Unreachable, leave, operator, unit_ids
from extproc.cli.inspect import Output, terminal

if TYPE_CHECKING:
    from extproc.gates.assemble import Inputs
    from extproc.gates.outcome import Check
    from extproc.gates.plan import Gate, Planned
    from extproc.gates.run import Report
    from extproc.gates.store import Store

INTERRUPTED = 130

T = TypeVar("T")

app = typer.Typer(
    name="gate",
    help="The release gates: is this release fit to take traffic?",
    no_args_is_help=True,
)

Settings: Any = typer.Option(
    ..., "--settings", metavar="FILE", help="settings.json: what to check, and its thresholds."
)
Config: Any = typer.Option(
    ..., "--config", metavar="FILE", help="config.toml: the servers, the matrix, the rollback."
)
Gates: Any = typer.Option("1-5", "--gates", metavar="LIST", help="Which gates: 1-3, or 2,4, or 5.")
State: Any = typer.Option(
    None,
    "--state",
    metavar="DIR",
    envvar="SEMANTIC_EXTPROC_GATES",
    help="Where records, approvals and the state of runs are kept; below the user's folder for "
    "state by default. CI keeps it between jobs.",
)
Release: Any = typer.Option(
    "",
    "--release",
    metavar="ID",
    help="The release under test: image digest, git sha. By default service.under_test.release, or "
    "matrix.runtime_version of the configuration.",
)
StartupLog: Any = typer.Option(
    "", "--startup-log", metavar="FILE", help="What the engine wrote while it started; - for stdin."
)
Golden: Any = typer.Option(
    None, "--golden", metavar="FILE", help="Golden prompts of your own (JSONL, YAML, JSON, text)."
)
Junit: Any = typer.Option(None, "--junit", metavar="FILE", help="Write JUnit XML.")
Markdown: Any = typer.Option(
    None, "--markdown", metavar="FILE", help="Write Markdown, for a pull request."
)
Resume: Any = typer.Option(
    False, "--resume", help="Go on where an interrupted run of this release stopped."
)
FailFast: Any = typer.Option(False, "--fail-fast", help="Leave out what follows a failed gate.")
ShowAnswers: Any = typer.Option(
    False, "--show-answers", help="Show what golden prompts were answered, in all reports."
)
How: Any = typer.Option(Output.TABLE, "--output", "-o", help="A table for people, or JSON.")


@app.command("run")
def run_command(
    settings: Path = Settings,
    config: Path = Config,
    gates: str = Gates,
    release: str = Release,
    startup_log: str = StartupLog,
    golden: Path | None = Golden,
    state: Path | None = State,
    resume: bool = Resume,
    fail_fast: bool = FailFast,
    show_answers: bool = ShowAnswers,
    output: Output = How,
    junit: Path | None = Junit,
    markdown: Path | None = Markdown,
) -> None:
    """Run the gates against a release.

    1 model load, 2 numbers beside the baseline's, 3 golden prompts, 4 long context and tools,
    5 shadow or canary traffic as the running sidecar measured it.

    Exit codes: 0 passed, 1 a gate failed, 2 some input is unusable, 3 nothing failed but a gate is
    undecided (its sample is too small) or nothing could be measured, 130 interrupted.
    """
    from extproc.gates.assemble import Options

    for path in (junit, markdown):
        if path is not None and not path.absolute().parent.is_dir():
            _unusable([f"{path}: its folder does not exist"])
    options = Options(
        _numbers(gates), release, startup_log, golden, show_answers, fail_fast, resume
    )
    report = _run(settings, config, options, _store(state), output)
    _write(report, output, junit, markdown)
    raise typer.Exit(report.exit_code)


@app.command("approve")
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

    store = _store(state)
    reason, by = " ".join(reason.split()), " ".join(by.split()) or operator()
    if not reason:
        _unusable(["--reason: must say why"])
    if not by:
        _unusable(["--by: the system does not know who you are; say it"])
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
        _unusable([str(error)])
    record = approval.record
    typer.echo(f"release {release} is approved by {by}: {reason}")
    for name, value in record.path.items():
        typer.echo(f"  {name} = {value}")
    for alarm in record.alarms:
        typer.echo(f"  known fallback: {alarm}")


@app.command("releases")
def releases(state: Path | None = State, output: Output = How) -> None:
    """List the releases on record, their execution paths, and who approved them.

    Exit codes: 0 done, 2 the folder is unusable.
    """
    from extproc.gates.store import StoreTrouble

    store = _store(state)
    try:
        records = [store.record(name) for name in store.releases()]
        approvals = store.approvals()
    except StoreTrouble as error:
        _unusable([str(error)])
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
            Text(record.at),
            Text("\n".join(f"{name} = {value}" for name, value in record.path.items())),
            Text("\n".join(said) or "no"),
        )
    terminal().print(made if made.rows else Text(f"no release is on record in {store.folder}"))


@app.command("verify-fallback")
def verify_fallback(
    unit: str = typer.Argument(
        ..., metavar="UNIT", autocompletion=unit_ids, help="The unit whose fallback is verified."
    ),
    settings: Path = Settings,
    config: Path = Config,
    admin: str = Admin,
    fallback: str = typer.Option(
        "", "--fallback", help="Which fallback, if the unit has several; the first by default."
    ),
    days: float = typer.Option(
        7.0, "--days", min=0.01, max=365.0, help="How long the verification holds."
    ),
    gates: str = typer.Option("1-4", "--gates", metavar="LIST", help="Which gates."),
    startup_log: str = StartupLog,
    golden: Path | None = Golden,
    state: Path | None = State,
    resume: bool = Resume,
    output: Output = How,
    junit: Path | None = Junit,
    markdown: Path | None = Markdown,
) -> None:
    """Run the gates on the fallback of a unit, and tell the sidecar that it is verified.

    service.under_test of the configuration must be the fallback's own server. The sidecar then cuts
    the unit off hard when it must (its fallback may take the traffic), until the verification
    expires or the fallback runs another release.

    Exit codes: as of gate run; 1 also when the sidecar refused, 2 when it does not answer.
    """
    from extproc.gates.assemble import Options

    api = Api(admin)
    try:
        names = api.get(api.unit(unit))["fallback"]
        if not names:
            _unusable([f"unit {unit} has no fallback: name one under units[].fallback"])
        chosen = fallback or names[0]
        if chosen not in names:
            _unusable([f"--fallback: {chosen} is none of {unit}'s fallbacks: {', '.join(names)}"])
        release = api.get(api.unit(chosen))["release"]
    except (Unreachable, Refused) as problem:
        leave(problem)
    if not release:
        _unusable([f"unit {chosen} has no release; set units[].release or Envoy's metadata"])
    options = Options(_numbers(gates), release, startup_log, golden, resume=resume)
    report = _run(settings, config, options, _store(state), output)
    _write(report, output, junit, markdown)
    if report.exit_code:
        typer.echo(f"semantic-extproc: {chosen} is not verified", err=True)
        raise typer.Exit(report.exit_code)
    try:
        api.post(
            api.unit(chosen, "verification"),
            {
                "release": release,
                "seconds": days * 86400,
                "reason": f"gates {gates} passed, run {report.run}",
                "by": operator(),
            },
        )
    except (Unreachable, Refused) as problem:
        leave(problem)
    typer.echo(
        f"{chosen} is verified for release {release} for {days:g} days: it may take the traffic of "
        f"{unit}",
        err=output is Output.JSON,
    )


# -- how -----------------------------------------------------------------------------------------


def _run(settings: Path, config: Path, options: Any, store: Store, output: Output) -> Report:
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
        _unusable(problems)
    try:
        inputs: Inputs = gather(read[0], read[1], options)
    except UnusableInput as error:
        _unusable(error.problems)
    with ExitStack() as stack:
        watcher = _Watcher(stack, quiet=output is Output.JSON)
        try:
            return asyncio.run(_until_signalled(run(inputs, store, watcher), watcher))
        except StoreTrouble as error:
            _unusable([str(error)])
        except UnusableInput as error:
            _unusable(error.problems)
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


class _Watcher:
    """Progress on standard error: a bar on a terminal, else a line for each finished check."""

    def __init__(self, stack: ExitStack, quiet: bool) -> None:
        self.finished = False
        self._quiet = quiet
        self._bar: Any = None
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

    def ended(self, gate: Gate, check: Check, resumed: bool) -> None:
        if gate.number == 0:
            self.finished = True  # the last gate: what follows is the rollback
        if self._bar is None and not self._quiet:
            when = "resumed" if resumed else f"{check.seconds:.1f} s"
            typer.echo(f"{gate.name}: {check.name}: {check.status.value} ({when})", err=True)


def _write(report: Report, output: Output, junit: Path | None, markdown: Path | None) -> None:
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
            _unusable([f"{path}: cannot be written: {error.strerror or error}"])


def _numbers(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*([1-5])\s*(?:-\s*([1-5])\s*)?", part)
        if match is None or (match[2] and match[2] < match[1]):
            _unusable([f"--gates: {part.strip()!r} is no gate; write 1-3, or 2,4, or 5"])
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(found)


def _store(state: Path | None) -> Store:
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


def _unusable(problems: list[str]) -> NoReturn:
    for problem in problems:
        typer.echo(problem, err=True)
    raise typer.Exit(2)
