"""The admin application, through real HTTP."""

from __future__ import annotations

import json

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestClient, TestServer

from extproc.admin import make_app
from extproc.health import Ledger
from extproc.processor import Services
from extproc.signals import Metrics
from extproc.units import Registry, Unit
from tests.unit.admin.client import Client
from tests.unit.services import corrupt

UNITS = [
    Unit("a", release="r1", fallback=("b",)),
    Unit("b", release="r1", verified=True),
    Unit("m|vllm:0.9", release="r1"),
]


@pytest.fixture
def services() -> Services:
    ledger, registry, metrics = Ledger(UNITS), Registry(UNITS), Metrics()
    metrics.watch(ledger, registry)
    return Services(registry, ledger, metrics)


async def check(client: Client, host: str) -> tuple[int, str | None]:
    answer = await client.get("/unit-health", headers={"Host": host})
    return answer.status, answer.headers.get("x-envoy-degraded")


async def test_a_unit_is_asked_for_by_host_with_or_without_a_port(
    client: Client, services: Services
) -> None:
    corrupt(services, "a")
    assert await check(client, "a") == (503, None)
    assert await check(client, "a:18081") == (503, None)
    assert await check(client, "b") == (200, None)


async def test_an_id_with_a_colon_is_no_port(client: Client, services: Services) -> None:
    corrupt(services, "m|vllm:0.9")
    assert await check(client, "m|vllm:0.9") == (200, "true")


async def test_without_a_verified_fallback_a_unit_is_only_degraded(
    client: Client, services: Services
) -> None:
    corrupt(services, "b")
    assert await check(client, "b") == (200, "true")
    corrupt(services, "a")
    assert await check(client, "a") == (200, "true"), "the last two were both cut off"


async def test_an_unknown_unit_is_healthy_and_makes_no_label(client: Client) -> None:
    assert await check(client, "who-is-this") == (200, None)
    text = await (await client.get("/metrics")).text()
    assert "who-is-this" not in text
    assert 'semantic_extproc_health_checks_total{answer="unknown",unit="unknown"} 1.0' in text


async def test_metrics_are_openmetrics_when_asked_for(client: Client) -> None:
    plain = await client.get("/metrics")
    assert plain.content_type == "text/plain"
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    fancy = await client.get("/metrics", headers=accept)
    assert fancy.content_type == "application/openmetrics-text"
    assert (await fancy.text()).endswith("# EOF\n")


async def test_units_are_described(client: Client, services: Services) -> None:
    corrupt(services, "a")
    found = (await (await client.get("/api/units")).json())["units"]
    assert [unit["id"] for unit in found] == ["a", "b", "m|vllm:0.9"]
    first = found[0]
    assert (first["state"], first["mode"], first["release"]) == ("quarantine", "hard", "r1")
    assert first["counts"]["corrupt"] == 3
    assert first["classes"]["short"]["state"] == "quarantine"
    assert first["releases"] == {"r1": {"clean": 0, "suspect": 0, "corrupt": 3, "unchecked": 0}}
    one = await client.get("/api/units/a")
    assert await one.json() == first


@pytest.mark.parametrize(("serving", "status"), [(True, 200), (False, 503)])
async def test_healthz_says_what_it_has_seen_and_whether_it_serves(
    services: Services, serving: bool, status: int
) -> None:
    async with TestClient(TestServer(make_app(services, lambda: serving))) as client:
        answer = await client.get("/healthz")
        assert answer.status == status
        assert (await answer.json())["responses_seen"] == 0


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b'{"reason": "x"}', "application/json", 200),
        (b'{"reason": "x"}', "text/plain", 415),
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b'{"reason": 1}', "application/json", 400),
        (b'{"reason": "  "}', "application/json", 400),
    ],
)
async def test_an_operator_s_word_needs_a_reason_as_json(
    client: Client, services: Services, body: bytes, kind: str, status: int
) -> None:
    answer = await client.post("/api/units/a/quarantine", data=body, headers={"Content-Type": kind})
    assert answer.status == status
    assert (services.ledger.held("a") is not None) is (status == 200)


async def test_a_reason_is_one_bounded_line(client: Client, services: Services) -> None:
    reason = json.dumps({"reason": "a\nb " * 1000})
    json_type = {"Content-Type": "application/json"}
    await client.post("/api/units/a/quarantine", data=reason, headers=json_type)
    held = services.ledger.held("a")
    assert held is not None
    assert len(held) == 500
    assert "\n" not in held


async def test_a_port_in_use_is_said(services: Services) -> None:
    from extproc.admin import AdminServer

    first = AdminServer(make_app(services, lambda: True), "127.0.0.1:0")
    await first.start()
    try:
        second = AdminServer(make_app(services, lambda: True), f"127.0.0.1:{first.port}")
        with pytest.raises(OSError, match="cannot listen on 127"):
            await second.start()
        await second.stop()
        async with ClientSession() as session:
            assert (await session.get(f"http://127.0.0.1:{first.port}/healthz")).status == 200
    finally:
        await first.stop()
