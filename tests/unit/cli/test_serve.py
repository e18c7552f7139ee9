"""``serve``: what it asks of gRPC."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from extproc.cli.serve import GRPC_EXPERIMENTS

SERVE = """
import asyncio, grpc
async def serve():
    server = grpc.aio.server()
    server.add_insecure_port("127.0.0.1:0")
    await server.start()
    await server.stop(0)
asyncio.run(serve())
"""


@pytest.mark.parametrize(
    ("experiments", "known"), [(GRPC_EXPERIMENTS, True), ("-none_such", False)]
)
def test_grpc_knows_how_it_is_asked_to_listen(experiments: str, known: bool) -> None:
    environment = {**os.environ, "GRPC_EXPERIMENTS": experiments}
    done = subprocess.run(
        [sys.executable, "-c", SERVE], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0
    assert ("Unknown experiment" not in done.stderr) is known
