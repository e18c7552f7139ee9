"""ext_proc in the upstream filter chain kills Envoy: the smallest run that shows it, per version.

usage: python -m bench.upstream_crash [--versions 1.40.0 ...] [--requests N] [--size BYTES]

Nothing of this project takes part but the server that answers every message and does nothing else
(bench.noop). Each case is the same Envoy, the same engine and the same requests for one JSON body;
the filter sits in the cluster's HttpProtocolOptions.http_filters, and in the last case in the
listener's chain.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from extproc.demo.ports import free_ports
from extproc.demo.processes import Processes, wait_ready
from tests.mesh.binaries import VERSIONS, Unavailable, binary

_TYPE = "type.googleapis.com/envoy.extensions"
_FLOW_CONTROL = "envoy.reloadable_features.grpc_side_stream_flow_control"


@dataclass(frozen=True)
class Case:
    """One place and mode of the filter."""

    name: str
    upstream: bool = True
    mode: str = "STREAMED"
    observability: bool = False
    flow_control: bool = True


CASES = (
    Case("upstream chain, STREAMED"),
    Case("upstream chain, BUFFERED", mode="BUFFERED"),
    Case("upstream chain, STREAMED, observability_mode", observability=True),
    Case("upstream chain, STREAMED, side-stream flow control off", flow_control=False),
    Case("downstream chain, STREAMED", upstream=False),
)


def bootstrap(case: Case, front: int, admin: int, engine: int, server: int) -> dict[str, Any]:
    """Envoy's configuration: a listener, an engine, the server of the filter."""

    def address(port: int) -> dict[str, Any]:
        return {"socket_address": {"address": "127.0.0.1", "port_value": port}}

    def cluster(name: str, port: int, options: dict[str, Any]) -> dict[str, Any]:
        endpoint = {"endpoint": {"address": address(port)}}
        kind = f"{_TYPE}.upstreams.http.v3.HttpProtocolOptions"
        return {
            "name": name,
            "type": "STATIC",
            "load_assignment": {
                "cluster_name": name,
                "endpoints": [{"lb_endpoints": [endpoint]}],
            },
            "typed_extension_protocol_options": {
                "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {"@type": kind, **options}
            },
        }

    guard = {
        "name": "envoy.filters.http.ext_proc",
        "typed_config": {
            "@type": f"{_TYPE}.filters.http.ext_proc.v3.ExternalProcessor",
            "grpc_service": {"envoy_grpc": {"cluster_name": "server"}},
            "failure_mode_allow": True,
            "observability_mode": case.observability,
            "message_timeout": "5s",
            "processing_mode": {
                "request_header_mode": "SKIP",
                "response_header_mode": "SEND",
                "response_body_mode": case.mode,
                "response_trailer_mode": "SKIP",
            },
        },
    }
    router = {
        "name": "envoy.filters.http.router",
        "typed_config": {"@type": f"{_TYPE}.filters.http.router.v3.Router"},
    }
    codec = {
        "name": "envoy.filters.http.upstream_codec",
        "typed_config": {"@type": f"{_TYPE}.filters.http.upstream_codec.v3.UpstreamCodec"},
    }
    manager = {
        "@type": f"{_TYPE}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "front",
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "engine"}}],
                }
            ]
        },
        "http_filters": [router] if case.upstream else [guard, router],
    }
    network = {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}
    http1: dict[str, Any] = {"explicit_http_config": {"http_protocol_options": {}}}
    return {
        "admin": {"address": address(admin)},
        "layered_runtime": {
            "layers": [{"name": "x", "static_layer": {_FLOW_CONTROL: case.flow_control}}]
        },
        "static_resources": {
            "listeners": [
                {
                    "name": "front",
                    "address": address(front),
                    "filter_chains": [{"filters": [network]}],
                }
            ],
            "clusters": [
                cluster(
                    "engine",
                    engine,
                    {**http1, "http_filters": [guard, codec]} if case.upstream else http1,
                ),
                cluster(
                    "server",
                    server,
                    {"explicit_http_config": {"http2_protocol_options": {}}},
                ),
            ],
        },
    }


async def attempt(path: Path, case: Case, requests: int, size: int) -> str:
    """Runs a case once; what became of Envoy."""
    body = json.dumps({"text": "x" * size}).encode()
    app = web.Application()

    async def engine_answers(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    app.router.add_route("*", "/{any:.*}", engine_answers)
    front, admin, server, engine = free_ports(4)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", engine).start()
    try:
        with tempfile.TemporaryDirectory() as name, Processes(Path(name)) as processes:
            folder = Path(name)
            file = folder / "envoy.json"
            file.write_text(json.dumps(bootstrap(case, front, admin, engine, server)))
            processes.start(
                "server", [sys.executable, "-m", "bench.noop", f"127.0.0.1:{server}", "asyncio"]
            )
            command = [str(path), "-c", str(file), "--use-dynamic-base-id", "--concurrency", "1"]
            envoy = processes.start("envoy", [*command, "-l", "warning"])
            async with aiohttp.ClientSession() as session:
                await wait_ready(envoy, _ready(session, admin))
                got = await asyncio.gather(*(_ask(session, front, body) for _ in range(requests)))
            if not all(got):
                await asyncio.sleep(0.5)  # a core dump may take that long
            code = envoy.code
            if code is not None:
                return signal.Signals(-code).name if code < 0 else f"exit {code}"
            return "ok" if all(got) else f"{got.count(False)} of {requests} answers broken"
    finally:
        await runner.cleanup()


def _ready(session: aiohttp.ClientSession, admin: int) -> Callable[[], Awaitable[bool]]:
    async def ready() -> bool:
        try:
            async with session.get(f"http://127.0.0.1:{admin}/ready") as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False

    return ready


async def _ask(session: aiohttp.ClientSession, front: int, body: bytes) -> bool:
    timeout = aiohttp.ClientTimeout(total=30)
    try:
        async with session.get(f"http://127.0.0.1:{front}/", timeout=timeout) as response:
            return response.status == 200 and await response.read() == body
    except (aiohttp.ClientError, TimeoutError):
        return False


async def measure(version: str, requests: int, size: int, runs: int) -> list[str]:
    """A row of the table: what each case came to, the worst of ``runs``."""
    path = binary(version)
    cells = []
    for case in CASES:
        outcomes = [await attempt(path, case, requests, size) for _ in range(runs)]
        bad = [outcome for outcome in outcomes if outcome != "ok"]
        cells.append(f"{bad[0]} ({len(bad)} of {runs})" if bad else "ok")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--versions", nargs="+", default=list(VERSIONS))
    parser.add_argument("--requests", type=int, default=60, help="at a time")
    parser.add_argument("--size", type=int, default=800_000, help="bytes of the JSON body")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    print("| Envoy | " + " | ".join(case.name for case in CASES) + " |")
    print("|---|" + "---|" * len(CASES))
    for version in options.versions:
        try:
            cells = asyncio.run(measure(version, options.requests, options.size, options.runs))
        except Unavailable as missing:
            print(f"| {version} | {missing} |")
            continue
        print(f"| {version} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
