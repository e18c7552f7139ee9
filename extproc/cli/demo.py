"""``semantic-extproc demo``: a corrupt release, and clients that do not notice."""

from __future__ import annotations

import json as jsonlib
from typing import Literal

import typer


def demo(
    seconds: float = typer.Option(45.0, min=8.0, max=3600.0, help="How long clients ask."),
    upstream: Literal["llamacpp", "recorded"] = typer.Option(
        "llamacpp",
        help="llamacpp: a real model on a real engine. recorded: small servers that replay it.",
    ),
    json: bool = typer.Option(False, "--json", help="Print the summary as JSON, and nothing else."),
    keep: bool = typer.Option(False, "--keep", help="Keep logs and configuration afterwards."),
) -> None:
    """Run the real thing on this machine: Envoy, two deployment units, the sidecar, clients.

    Unit A starts healthy; part-way a corrupt release of it is rolled out. Ports are free ones on
    the loopback, and nothing is left running.

    Exit codes: 0 no client saw the corrupt release, 1 otherwise, 2 something is not installed,
    130 interrupted.
    """
    # Heavy imports follow here, so that --help and completion stay quick.
    from rich.console import Console

    from extproc.cli.inspect import terminal
    from extproc.demo import Broken, Missing, Options, Upstream, choose_view, closing, run

    console = Console(stderr=True)
    try:
        summary = run(Options(seconds, Upstream(upstream), keep), choose_view(console))
    except Missing as missing:
        typer.echo(f"semantic-extproc demo: {missing}", err=True)
        raise typer.Exit(2) from None
    except Broken as broken:
        typer.echo(f"semantic-extproc demo: {broken}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo("semantic-extproc demo: interrupted; everything it started has ended", err=True)
        raise typer.Exit(130) from None
    if json:
        typer.echo(jsonlib.dumps(summary.as_dict(), indent=2))
    else:
        terminal().print(closing(summary))
    raise typer.Exit(0 if summary.kept else 1)
