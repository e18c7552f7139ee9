"""``semantic-extproc baseline``: what is ordinary for a model, learnt from its healthy answers."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from extproc.cli.inspect import model_of, read_rules, verdicts

if TYPE_CHECKING:
    from extproc.detect import Finding


def baseline(
    paths: list[str] = typer.Argument(
        ...,
        metavar="PATH...",
        help="Recorded exchanges, as inspect takes them; all of them healthy.",
    ),
    model: str = typer.Option(
        "", "--model", help="The model that answered, where requests do not name one."
    ),
    rate: float = typer.Option(
        0.02, "--rate", min=0, max=1, help="Ordinary is what more than this share of answers does,"
    ),
    least: int = typer.Option(3, "--least", min=1, help="and at least so many of them."),
    config: Path | None = typer.Option(
        None, "--config", "-c", help="The configuration that the baseline will go into."
    ),
) -> None:
    """Learn from healthy answers which findings are ordinary for a model.

    Prints a `baselines:` section for the configuration. What stands there becomes a note instead
    of a finding, for units of that model: a model of poetry may repeat itself, one of DNA may look
    like salad. Read it before you use it: what is ordinary is not looked for any more.

    Exit codes: 0 done, 2 some input unusable (the rest is still learnt from).
    """
    import yaml

    from extproc.cli.exchanges import Problem
    from extproc.detect import learn

    seen: dict[str, list[tuple[Finding, ...]]] = {}
    problems = 0
    with ExitStack() as stack:
        for result in verdicts(paths, 0, 0, read_rules(config, "", []), stack):
            if isinstance(result, Problem):
                problems += 1
                typer.echo(str(result), err=True)
                continue
            exchange, verdict = result
            seen.setdefault(model_of(exchange) or model, []).append(verdict.findings)
    if nameless := len(seen.pop("", ())):
        typer.echo(f"{nameless} requests name no model: say which with --model", err=True)
    section = {}
    for name, findings in sorted(seen.items()):
        ordinary = sorted(learn(findings, rate, least).ordinary)
        said = ", ".join(ordinary) or "nothing that stands out"
        typer.echo(f"{name}: {len(findings)} answers: {said}", err=True)
        if ordinary:
            section[name] = {"ordinary": ordinary}
    typer.echo(
        yaml.safe_dump({"baselines": section}, sort_keys=False, allow_unicode=True), nl=False
    )
    raise typer.Exit(2 if problems or nameless else 0)
