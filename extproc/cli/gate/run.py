"""``semantic-extproc gate run``."""

from __future__ import annotations

from pathlib import Path

import typer

from extproc.cli.gate.options import (
    Config,
    FailFast,
    Gates,
    Golden,
    How,
    Junit,
    Markdown,
    Release,
    Resume,
    Settings,
    ShowAnswers,
    StartupLog,
    State,
)
from extproc.cli.gate.running import gate_numbers, open_store, run_gates, unusable, write_report
from extproc.cli.inspect import AsJson, Output


def run(
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
    as_json: bool = AsJson,
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
            unusable([f"{path}: its folder does not exist"])
    options = Options(
        gate_numbers(gates), release, startup_log, golden, show_answers, fail_fast, resume
    )
    output = Output.JSON if as_json else output
    report = run_gates(settings, config, options, open_store(state), output)
    write_report(report, output, junit, markdown)
    raise typer.Exit(report.exit_code)
