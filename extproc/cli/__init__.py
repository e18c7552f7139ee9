"""The command line: one file a command."""

from __future__ import annotations

import typer

from extproc import __version__
from extproc.cli.audit import audit
from extproc.cli.baseline import baseline
from extproc.cli.config import config
from extproc.cli.demo import demo
from extproc.cli.detectors import detectors
from extproc.cli.evidence import evidence
from extproc.cli.examples import register
from extproc.cli.gate import app as gate
from extproc.cli.health import health
from extproc.cli.inspect import inspect
from extproc.cli.operate import quarantine, release
from extproc.cli.probe import probe
from extproc.cli.render import render
from extproc.cli.serve import serve
from extproc.cli.status import status

app = typer.Typer(
    name="semantic-extproc",
    help="Watches what LLM engines answer, from inside Envoy, and moves traffic away from a "
    "deployment unit that answers garbage.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _main(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    pass


for command in (demo, serve, config, render, audit, inspect, baseline, detectors):
    register(app, command)
for question in (status, quarantine, release, evidence, probe, health):
    register(app, question, "A running sidecar")
app.add_typer(gate)


def main() -> None:
    """Entry point of the ``semantic-extproc`` command."""
    app()
