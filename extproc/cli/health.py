"""``semantic-extproc health``: whether a sidecar serves, for containers' health checks."""

from __future__ import annotations

import typer

from extproc.cli.admin import Admin, Api, Refused, Unreachable, leave


def health(admin: str = Admin) -> None:
    """Ask a running sidecar whether it takes streams.

    Made for health checks of containers, whose images have no curl.

    Exit codes: 0 it serves, 1 it answers and does not serve, 2 it does not answer.
    """
    try:
        found = Api(admin, seconds=2.0).get("/healthz")
    except (Unreachable, Refused) as problem:
        leave(problem)
    typer.echo(found["status"])
