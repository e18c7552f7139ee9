"""Settings in, running webhooks and xDS out: what they do with a real book."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from envoy.service.endpoint.v3 import eds_pb2_grpc

from extproc.config import parse
from extproc.detect import Finding, Kind
from extproc.health import Response
from extproc.outlets import Outlets
from extproc.processor import Services
from extproc.sidecar import make_services
from extproc.signals.webhooks import signature
from tests.unit.signals.mesh import request, statuses
from tests.waiting import until

TEXT = """\
units:
- {id: a, release: r1, fallback: [b]}
- {id: b, release: r1, verified: true}
health: {classes_routed: true}
xds:
  address: "127.0.0.1:0"
  clusters:
  - name: hosts
    endpoints:
    - {address: "10.0.0.1:80", unit: a, host: h1}
    - {address: "10.0.0.2:80", unit: a, host: h2}
  - name: classes
    endpoints:
    - {address: "10.0.0.1:80", unit: a, context_class: short}
    - {address: "10.0.0.1:80", unit: a, context_class: long}
"""


@pytest.fixture
def services() -> Services:
    return make_services(parse(TEXT, "x.yaml"))


@pytest.fixture
async def eds(services: Services) -> AsyncIterator[Any]:
    outlets = Outlets(parse(TEXT, "x.yaml"), services)
    await outlets.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{outlets.xds_port}") as channel:
        yield eds_pb2_grpc.EndpointDiscoveryServiceStub(channel).StreamEndpoints()
    await outlets.stop()


def answer(services: Services, host: str, context: str, kind: Kind, times: int) -> None:
    found = (Finding("repetition", "period", 64, 16),) if kind is Kind.CORRUPT else ()
    for number in range(times):
        id = f"{host}-{context}-{kind}-{number}"
        services.record(Response("a", "r1", context, host, kind, found, id, number))


async def test_a_bad_host_is_taken_out_alone(services: Services, eds: Any) -> None:
    await eds.write(request("", "hosts"))
    assert statuses(await eds.read()) == {"hosts": [1, 1]}
    answer(services, "h2", "short", Kind.CLEAN, 300)
    answer(services, "h1", "short", Kind.CORRUPT, 10)
    assert statuses(await eds.read()) == {"hosts": [2, 1]}


async def test_a_bad_class_is_taken_out_alone(services: Services, eds: Any) -> None:
    await eds.write(request("", "classes"))
    assert statuses(await eds.read()) == {"classes": [1, 1]}
    answer(services, "h1", "short", Kind.CLEAN, 10)
    for host in ("h1", "h2"):
        answer(services, host, "long", Kind.CORRUPT, 5)
    assert statuses(await eds.read()) == {"classes": [1, 2]}


@pytest.mark.parametrize("where", ["secret_env", "secret_file"])
async def test_a_webhook_hears_of_what_the_book_decides_and_is_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.delenv("http_proxy", raising=False)
    monkeypatch.setenv("HOOK_SECRET", "s")
    (tmp_path / "secret").write_text("s\n")
    got: list[tuple[bytes, str, str]] = []

    async def take(request: web.Request) -> web.Response:
        signed = request.headers["x-semantic-signature"]
        got.append((await request.read(), request.headers["x-semantic-timestamp"], signed))
        return web.Response()

    app = web.Application()
    app.router.add_post("/", take)
    async with TestServer(app) as server:
        place = "HOOK_SECRET" if where == "secret_env" else str(tmp_path / "secret")
        text = (
            "units: [{id: a}]\n"
            f"webhooks: [{{name: n, url: '{server.make_url('/')}', {where}: {place}}}]\n"
        )
        settings = parse(text, "x.yaml")
        services = make_services(settings)
        outlets = Outlets(settings, services)
        await outlets.start()
        services.announce(services.ledger.hold_out("a", "a test", 1.0))
        await until(lambda: bool(got))
        await outlets.stop()
    ((body, stamp, signed),) = got
    assert signed == signature(b"s", stamp, body)
    evidence = json.loads(body)["evidence"]
    assert (evidence["unit"], evidence["cause"]) == ("a", "operator: a test")
