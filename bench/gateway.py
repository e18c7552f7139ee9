"""What inspection costs beside Envoy itself: the same streams through the real Envoy, alone, with
a Lua filter that counts repeated characters, with an ext_proc server that does nothing, and with
the sidecar.

Envoy and what it calls run in processes of their own; their CPU is read from /proc and added up.
The variants take turns, several rounds, and the median round counts. Engine and client are in this
process, so the delay of a chunk, from the engine's write to the client's read, needs one clock.

usage: python -m bench.gateway [--rounds N] [--json] [--keep FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import uvloop
import yaml
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.messages import pieces
from bench.servers import Process, Server, free_port, noop, sidecar
from extproc.cli.serve import GRPC_EXPERIMENTS
from extproc.demo.envoy import find_binary

STREAMS, CHUNKS, GAP = 40, 200, 0.005
"""Streams at once, chunks of each, and seconds between two: about 8 000 tokens a second, so that
chunks stay apart as an engine's tokens do."""

LUA = """
function envoy_on_response(handle)
  local last, run = "", 0
  for chunk in handle:bodyChunks() do
    local data = chunk:getBytes(0, chunk:length())
    for text in string.gmatch(data, '"content":"(.-)"') do
      for at = 1, #text do
        local letter = string.sub(text, at, at)
        if letter == last then run = run + 1 else last, run = letter, 1 end
        if run == 32 then handle:logWarn("one character over and over") end
      end
    end
  end
end
"""
"""What a team would write instead: it sees ``!!!!``, and nothing else that this project is for."""

ROUTER = {
    "name": "envoy.filters.http.router",
    "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
}


def _address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def _cluster(name: str, port: int, http2: bool = False) -> dict[str, Any]:
    endpoint = {"endpoint": {"address": _address(port)}}
    cluster: dict[str, Any] = {
        "name": name,
        "type": "STATIC",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]},
    }
    if http2:
        options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
        cluster["typed_extension_protocol_options"] = {
            options: {
                "@type": f"type.googleapis.com/{options}",
                "explicit_http_config": {"http2_protocol_options": {}},
            }
        }
    return cluster


def _ext_proc() -> dict[str, Any]:
    kind = "envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor"
    return {
        "name": "envoy.filters.http.ext_proc",
        "typed_config": {
            "@type": f"type.googleapis.com/{kind}",
            "grpc_service": {"envoy_grpc": {"cluster_name": "processor"}},
            "failure_mode_allow": True,
            "message_timeout": "1s",
            "send_body_without_waiting_for_header_response": True,
            "processing_mode": {
                "request_header_mode": "SKIP",
                "response_header_mode": "SEND",
                "response_body_mode": "STREAMED",
            },
            "response_attributes": ["xds.cluster_name", "request.path", "request.id"],
        },
    }


def _lua() -> dict[str, Any]:
    kind = "envoy.extensions.filters.http.lua.v3.Lua"
    return {
        "name": "envoy.filters.http.lua",
        "typed_config": {
            "@type": f"type.googleapis.com/{kind}",
            "default_source_code": {"inline_string": LUA},
        },
    }


def _config(port: int, engine: int, filters: list[dict[str, Any]], processor: int) -> str:
    manager = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
    route = {"match": {"prefix": "/"}, "route": {"cluster": "engine", "timeout": "0s"}}
    hosts = [{"name": "all", "domains": ["*"], "routes": [route]}]
    chain = {
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": {
            "@type": f"type.googleapis.com/{manager}",
            "stat_prefix": "front",
            "route_config": {"virtual_hosts": hosts},
            "http_filters": [*filters, ROUTER],
        },
    }
    listener = {"address": _address(port), "filter_chains": [{"filters": [chain]}]}
    clusters = [_cluster("engine", engine)]
    if processor:
        clusters.append(_cluster("processor", processor, http2=True))
    return yaml.safe_dump({"static_resources": {"listeners": [listener], "clusters": clusters}})


class Gateway:
    """One Envoy, and the server that it calls if it calls one."""

    def __init__(
        self, home: Path, engine: int, filters: list[Any], processor: Server | None
    ) -> None:
        self.port = free_port()
        path = home / f"envoy-{self.port}.yaml"
        path.write_text(_config(self.port, engine, filters, processor.port if processor else 0))
        self._envoy = Process(
            [
                *(str(find_binary()), "-c", str(path), "--concurrency", "1"),
                *("--use-dynamic-base-id", "--log-level", "error"),
            ]
        )
        self._processor = processor

    @property
    def cpu(self) -> float:
        """Seconds of CPU of both."""
        return self._envoy.cpu + (self._processor.cpu if self._processor else 0)

    def stop(self) -> None:
        """Ends both."""
        self._envoy.stop()
        if self._processor is not None:
            self._processor.stop()


def _chunk(stream: str, at: int, text: str) -> bytes:
    delta = {
        "id": f"{stream}.{at}",
        "object": "chat.completion.chunk",
        "model": "m",
        "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}],
    }
    return f"data: {json.dumps(delta, separators=(',', ':'))}\n\n".encode()


class Engine:
    """Streams recorded tokens of a healthy model over HTTP/1.1, and notes when it wrote each."""

    def __init__(self) -> None:
        self._tokens = pieces()[:CHUNKS]
        self.written: dict[tuple[str, int], float] = {}
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        """Listens on a free port of the loopback."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                stream = head.split(b" ", 2)[1].rpartition(b"/")[2].decode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                    b"transfer-encoding: chunked\r\n\r\n"
                )
                for at, token in enumerate(self._tokens):
                    data = _chunk(stream, at, token)
                    self.written[stream, at] = time.perf_counter()
                    writer.write(b"%x\r\n%s\r\n" % (len(data), data))
                    await asyncio.sleep(GAP)
                end = b"data: [DONE]\n\n"
                writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(end), end))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def close(self) -> None:
        """Stops listening."""
        if self._server is not None:
            self._server.close()


async def _read(port: int, stream: str, engine: Engine, delays: list[float]) -> None:
    """Asks for one stream, and takes each chunk's delay. All must arrive."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        f"POST /v1/chat/completions/{stream} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n"
        "connection: close\r\n\r\n".encode()
    )
    seen = 0
    rest = b""
    while data := await reader.read(65536):
        now = time.perf_counter()
        rest += data
        *lines, rest = rest.split(b"\n")
        for line in lines:
            if line.startswith(b"data: {"):
                delays.append(now - engine.written[stream, seen])
                seen += 1
    writer.close()
    assert seen == CHUNKS, f"{seen} of {CHUNKS} chunks arrived"


async def _ready(port: int) -> None:
    for _ in range(600):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return
    raise TimeoutError("Envoy did not start")


@contextmanager
def _gateways(home: Path, engine: Engine) -> Iterator[dict[str, Gateway]]:
    with ExitStack() as stack:

        def made(filters: list[Any], processor: Server | None = None) -> Gateway:
            gateway = Gateway(home, engine.port, filters, processor)
            stack.callback(gateway.stop)
            return gateway

        yield {
            "Envoy alone": made([]),
            "Envoy + Lua": made([_lua()]),
            "Envoy + no-op": made(
                [_ext_proc()], Server("no-op", noop("uvloop", GRPC_EXPERIMENTS), home)
            ),
            "Envoy + sidecar": made([_ext_proc()], Server("sidecar", sidecar, home)),
        }


async def _measure(home: Path, rounds: int, console: Console) -> list[dict[str, Any]]:
    engine = Engine()
    await engine.start()
    costs: dict[str, list[float]] = {}
    delays: dict[str, list[float]] = {}
    with _gateways(home, engine) as gateways:
        for gateway in gateways.values():
            await _ready(gateway.port)
            await _streams(gateway.port, "warm", 4, engine, [])
        bars = track(range(rounds), "gateway", console=console, disable=not console.is_terminal)
        for number in bars:
            for name, gateway in gateways.items():
                before = gateway.cpu
                late = delays.setdefault(name, [])
                await _streams(gateway.port, f"r{number}", STREAMS, engine, late)
                costs.setdefault(name, []).append(gateway.cpu - before)
    engine.close()
    alone = costs["Envoy alone"]
    base = statistics.median(delays["Envoy alone"])
    return [
        {
            "what": name,
            "CPU / Envoy alone": round(
                statistics.median(a / b for a, b in zip(spent, alone, strict=True)), 2
            ),
            "added delay of a chunk, microseconds (p50)": round(
                (statistics.median(delays[name]) - base) * 1e6
            ),
            "p99": round((_p99(delays[name]) - _p99(delays["Envoy alone"])) * 1e6),
        }
        for name, spent in costs.items()
    ]


def _p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98]


async def _streams(port: int, name: str, count: int, engine: Engine, delays: list[float]) -> None:
    await asyncio.gather(
        *(_read(port, f"{name}-{port}-{at}", engine, delays) for at in range(count))
    )


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path, help="write the JSON result to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        rows = uvloop.run(_measure(Path(home), options.rounds, Console(stderr=True)))
    if options.keep:
        options.keep.write_text(json.dumps(rows, indent=2) + "\n")
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        table = Table(*rows[0])
        for row in rows:
            table.add_row(*map(str, row.values()))
        Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
