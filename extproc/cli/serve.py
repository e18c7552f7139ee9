"""``semantic-extproc serve``: the sidecar."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import typer

from extproc.cli.common import load_or_exit

GRPC_EXPERIMENTS = "-event_engine_listener"
"""How gRPC listens, in the words of its variable of that name: on the threads that wait for
events, as it did for years, rather than on a pool that each event is handed to. A message costs
less CPU so: ``make bench`` has a no-op both ways. gRPC 1.76 to 1.85 know it; one that does not says
so in a line, and goes on."""


def serve(
    config: Path | None = typer.Option(
        None, "--config", "-c", help="The YAML file of settings; all defaults without one."
    ),
    workers: int | None = typer.Option(
        None,
        "--workers",
        "-w",
        min=1,
        max=256,
        help="Processes that read answers, each on an address of its own (server.workers). "
        "By default one a core; with 1 everything is one process.",
    ),
) -> None:
    """Run the sidecar: the ext_proc server for Envoy and the admin HTTP server.

    Any setting can be overridden by the environment: SEMANTIC_EXTPROC_GRPC__ADDRESS=:18080
    replaces grpc.address. SIGTERM drains open streams, then stops. SIGHUP reads the configuration
    again; new streams go by it.

    Exit codes: 0 stopped by a signal, 1 an address or the store could not be had, 2 unusable
    configuration.
    """
    if workers is not None:  # for this process, for its workers, and whenever the file is read
        os.environ["SEMANTIC_EXTPROC_SERVER__WORKERS"] = str(workers)
    settings = load_or_exit(config)
    os.environ.setdefault("GRPC_EXPERIMENTS", GRPC_EXPERIMENTS)  # read when gRPC is imported
    # Heavy imports follow here, so that --help and completion stay quick.
    from extproc import logs
    from extproc.health.stores import StoreError
    from extproc.workers.supervisor import Failed

    one = settings.workers == 1
    logs.configure(settings.log.level, settings.log.format, "" if one else "supervisor")
    try:
        if one:
            import uvloop

            from extproc.sidecar import alone

            uvloop.run(alone(config, settings))
        else:
            from extproc.config import read
            from extproc.workers.supervisor import Supervisor

            text = read(config) if config is not None else ""
            asyncio.run(Supervisor(config, text, settings).run())
    except (OSError, StoreError) as error:
        typer.echo(f"semantic-extproc: {error}", err=True)
        raise typer.Exit(1) from None
    except Failed:
        raise typer.Exit(1) from None  # the process that failed has said why
    except asyncio.CancelledError:
        pass  # a second signal cut the drain short
