"""What a stream costs in a loop of its own: the reading alone, without gRPC, sockets or Envoy.

The same streams as those of ``bench.edge``, again and again in this process, so that all code stays
in the processor's caches. Beside the cost at the gRPC edge it shows how much of that is code that
has to be fetched anew; and a profiler sees nothing but the project's own work:

usage: python -m bench.inside [--streams N]
       python -m cProfile -s tottime -m bench.inside
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvloop
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb

from bench.edge import SHAPES, WORDS
from bench.messages import body_messages, headers_message
from bench.play import cost
from bench.servers import AS_SET, Server, noop, sidecar
from extproc.assembly import make_services, settled
from extproc.cli.serve import GRPC_EXPERIMENTS
from extproc.config import Settings
from extproc.detect import prepare
from extproc.processor import Services
from extproc.processor.stream import EOF, Stream


class Call:
    """The context of an RPC whose messages are there, and whose answers nobody waits for."""

    def __init__(self, messages: list[bytes]) -> None:
        self._left: Iterator[bytes] = iter(messages)

    async def read(self) -> Any:
        """The next message."""
        data = next(self._left, None)
        return EOF if data is None else pb.ProcessingRequest.FromString(data)

    async def write(self, data: bytes) -> None:
        """Takes an answer."""


async def _all(services: Services, messages: list[bytes], streams: int) -> float:
    for _ in range(streams // 10):
        await Stream(services, Call(messages)).run()
    started = time.process_time()
    for _ in range(streams):
        await Stream(services, Call(messages)).run()
    return (time.process_time() - started) / streams


def main() -> int:
    """Prints the cost of the project's own work in a loop, over the same at the gRPC edge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=2000)
    options = parser.parse_args()
    services = make_services(Settings.model_validate({"units": [{"id": "unit-a"}]}))
    prepare()
    settled()
    for shape, (_, chunks) in SHAPES.items():
        bodies = body_messages(chunks)
        each = 1 if shape == "stream" else chunks
        runs = max(10, options.streams * 24 // chunks)
        alone = uvloop.run(_all(services, [headers_message(), *bodies], runs))
        edge = _at_the_edge(bodies, max(1, runs // 4))
        print(
            f"{WORDS[shape]}: {alone / each * 1e6:.1f} us in a loop, "
            f"{alone / edge:.2f} of what the sidecar takes beyond the no-op"
        )
    return 0


def _at_the_edge(bodies: list[bytes], streams: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        servers = [
            Server(AS_SET, noop("uvloop", GRPC_EXPERIMENTS), home),
            Server("sidecar", sidecar, home),
        ]
        try:
            for server in servers:
                cost(server, bodies, max(1, streams // 10))
            theirs, ours = (cost(server, bodies, streams) / streams for server in servers)
        finally:
            for server in servers:
                server.stop()
    return ours - theirs


if __name__ == "__main__":
    sys.exit(main())
