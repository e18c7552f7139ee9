"""``semantic-extproc serve``: the sidecar."""

from __future__ import annotations

import asyncio
from pathlib import Path

import typer

from extproc.cli.common import load_or_exit


def serve(
    config: Path | None = typer.Option(
        None, "--config", "-c", help="The YAML file of settings; all defaults without one."
    ),
) -> None:
    """Run the sidecar: the ext_proc server for Envoy and the admin HTTP server.

    Any setting can be overridden by the environment: SEMANTIC_EXTPROC_GRPC__ADDRESS=:18080
    replaces grpc.address. SIGTERM drains open streams, then stops.

    Exit codes: 0 stopped by a signal, 1 an address or the store could not be had, 2 unusable
    configuration.
    """
    settings = load_or_exit(config)
    # Heavy imports follow here, so that --help and completion stay quick.
    import uvloop

    from extproc import logs
    from extproc.health.stores import StoreError
    from extproc.sidecar import Sidecar

    logs.configure(settings.log.level, settings.log.format)
    try:
        uvloop.run(Sidecar(settings).run())
    except (OSError, StoreError) as error:
        typer.echo(f"semantic-extproc: {error}", err=True)
        raise typer.Exit(1) from None
    except asyncio.CancelledError:
        pass  # a second signal cut the drain short
