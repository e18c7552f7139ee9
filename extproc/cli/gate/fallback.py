"""``semantic-extproc gate verify-fallback``."""

from __future__ import annotations

from pathlib import Path

import typer

from extproc.cli.admin import Admin, Api, Refused, Unreachable, leave, operator, unit_ids
from extproc.cli.gate.options import (
    Config,
    Golden,
    How,
    Junit,
    Markdown,
    Resume,
    Settings,
    StartupLog,
    State,
)
from extproc.cli.gate.running import gate_numbers, open_store, run_gates, unusable, write_report
from extproc.cli.inspect import AsJson, Output


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
    as_json: bool = AsJson,
    junit: Path | None = Junit,
    markdown: Path | None = Markdown,
) -> None:
    """Run the gates on the fallback of a unit, and tell the sidecar that it is verified.

    The server asked is service.fallback of the configuration, or service.under_test without it.
    Nothing is rolled back when it fails. While it is verified, the sidecar may cut the unit off
    hard, since its fallback can take the traffic: until the verification expires, or the fallback
    runs another release.

    Exit codes: as of gate run; 1 also when the sidecar refused, 2 when it does not answer.
    """
    from extproc.gates.assemble import Options

    api = Api(admin)
    try:
        names = api.get(api.unit(unit))["fallback"]
        if not names:
            unusable([f"unit {unit} has no fallback: name one under units[].fallback"])
        chosen = fallback or names[0]
        if chosen not in names:
            unusable([f"--fallback: {chosen} is none of {unit}'s fallbacks: {', '.join(names)}"])
        release = api.get(api.unit(chosen))["release"]
    except (Unreachable, Refused) as problem:
        leave(problem)
    if not release:
        unusable([f"unit {chosen} has no release; set units[].release or Envoy's metadata"])
    options = Options(gate_numbers(gates), release, startup_log, golden, resume=resume)
    output = Output.JSON if as_json else output
    report = run_gates(settings, config, options, open_store(state), output, fallback=True)
    write_report(report, output, junit, markdown)
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
