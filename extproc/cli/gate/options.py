"""Options that several gate commands share."""

from __future__ import annotations

from typing import Any

import typer

from extproc.cli.inspect import Output

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
    envvar="SEMANTIC_EXTPROC_GATES_STATE",
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
