"""The yardstick: an ext_proc server that answers every message and does nothing else.

usage: python -m bench.noop ADDRESS asyncio|uvloop
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import grpc
import uvloop
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb

EOF: Any = grpc.aio.EOF  # type: ignore[attr-defined]
HEADERS = pb.ProcessingResponse(response_headers=pb.HeadersResponse()).SerializeToString()
BODY = pb.ProcessingResponse(response_body=pb.BodyResponse()).SerializeToString()


async def process(_: object, context: Any) -> None:
    """Answers until Envoy's last message."""
    while True:
        message = await context.read()
        if message is EOF:
            return
        body = message.WhichOneof("request") == "response_body"
        await context.write(BODY if body else HEADERS)


async def main(address: str) -> None:
    """Serves until killed."""
    server = grpc.aio.server()
    handler = grpc.stream_stream_rpc_method_handler(
        process, request_deserializer=pb.ProcessingRequest.FromString
    )
    name = "envoy.service.ext_proc.v3.ExternalProcessor"
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(name, {"Process": handler}),)
    )
    server.add_insecure_port(address)
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    run = uvloop.run if sys.argv[2] == "uvloop" else asyncio.run
    run(main(sys.argv[1]))
