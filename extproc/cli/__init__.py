"""The command line: one file a command."""

from __future__ import annotations

import typer

from extproc.cli.detectors import detectors
from extproc.cli.inspect import inspect

app = typer.Typer(
    name="semantic-extproc",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command()(inspect)
app.command()(detectors)


def main() -> None:
    """Entry point of the ``semantic-extproc`` command."""
    app()
