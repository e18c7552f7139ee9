"""``semantic-extproc gate``: the release gates."""

from __future__ import annotations

import typer

from extproc.cli.examples import register
from extproc.cli.gate.approvals import approve, releases
from extproc.cli.gate.fallback import verify_fallback
from extproc.cli.gate.run import run

app = typer.Typer(
    name="gate",
    help="The release gates: is this release fit to take traffic?",
    no_args_is_help=True,
)

for command in (run, approve, releases, verify_fallback):
    register(app, command)
