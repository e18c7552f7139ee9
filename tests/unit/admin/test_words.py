"""What gates and probes tell the sidecar, through real HTTP."""

from __future__ import annotations

import time
from typing import Any

import pytest

from extproc.detect import Kind
from extproc.health import Ledger, Response, Subject
from extproc.processor import Services
from extproc.signals import Metrics
from extproc.units import Registry, Unit
from tests.unit.admin.client import Client
from tests.unit.services import Heard

UNITS = [Unit("a", release="r1", fallback=("b",)), Unit("b", release="r1")]


@pytest.fixture
def kept() -> Heard:
    return Heard()


@pytest.fixture
def services(kept: Heard) -> Services:
    ledger, registry, metrics = Ledger(UNITS), Registry(UNITS), Metrics()
    metrics.watch(ledger, registry)
    return Services(registry, ledger, metrics, sinks=[kept])


def break_a(services: Services) -> None:
    for _ in range(3):
        services.record(Response("a", "r1", "short", "h", Kind.CORRUPT, (), "id", 0.0))


async def post(client: Client, path: str, content: Any, status: int = 200) -> Any:
    answer = await client.post(path, json=content)
    assert answer.status == status, await answer.text()
    return await answer.json() if status == 200 else await answer.text()


async def metric(client: Client, name: str) -> list[str]:
    text = await (await client.get("/metrics")).text()
    return [line for line in text.splitlines() if line.startswith(name)]


async def test_a_verified_fallback_makes_the_answer_to_envoy_hard(
    client: Client, services: Services, kept: Heard
) -> None:
    break_a(services)
    asked = {"Host": "a"}
    assert (await client.get("/unit-health", headers=asked)).status == 200
    word = {"release": "r1", "seconds": 3600, "reason": "all five gates", "by": "ci"}
    unit = await post(client, "/api/units/b/verification", word)
    assert unit["verified"]
    said = unit["verification"]
    assert said["release"] == "r1"
    assert said["cause"] == "all five gates (by ci)"
    assert said["until"] == pytest.approx(time.time() + 3600, abs=60)
    assert (await client.get("/unit-health", headers=asked)).status == 503
    (line,) = await metric(client, "semantic_extproc_fallback_verified_until_seconds{")
    assert float(line.rpartition(" ")[2]) == said["until"]
    record = kept.records[-1]
    assert (record.subject, record.cause) == (
        Subject.VERIFICATION,
        "verified: all five gates (by ci)",
    )

    answer = await client.delete("/api/units/b/verification", json={"reason": "it loops"})
    assert not (await answer.json())["verified"]
    assert (await client.get("/unit-health", headers=asked)).status == 200
    (line,) = await metric(client, "semantic_extproc_fallback_verified_until_seconds{")
    assert line.endswith(" 0.0")
    assert kept.records[-1].cause == "withdrawn: it loops"


async def test_a_lapse_is_told_once(client: Client, services: Services, kept: Heard) -> None:
    word = {"seconds": 10, "reason": "gates"}
    await post(client, "/api/units/b/verification", word)
    services.clock = lambda: time.time() + 11
    services.tick()
    services.tick()
    assert [r.cause for r in kept.records] == ["verified: gates", "lapsed: its time is over"]
    (line,) = await metric(client, 'semantic_extproc_verifications_total{unit="b",word="lapsed"')
    assert line.endswith(" 1.0")


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"seconds": 0},
        {"seconds": -1},
        {"seconds": "60"},
        {"seconds": True},
        {"until": 5},
        {"seconds": 1e12},
        {"until": 1e400},
        {"until": 5, "seconds": 5},
        {"seconds": 60, "release": "no such\nname"},
        {"seconds": 60, "release": 7},
        {"seconds": 60, "reason": ""},
    ],
)
async def test_a_verification_needs_an_end_ahead_a_release_and_a_reason(
    client: Client, services: Services, wrong: dict[str, Any]
) -> None:
    text = await post(client, "/api/units/b/verification", {"reason": "x", **wrong}, 400)
    assert text.count("\n") == 1
    assert not services.ledger.verifications


async def test_passed_probes_let_a_unit_in_and_are_kept(
    client: Client, services: Services, kept: Heard
) -> None:
    break_a(services)
    unit = await post(client, "/api/units/a/probes", {"passed": 9, "reason": "matrix", "by": "p"})
    assert unit["state"] == "observe"
    assert kept.records[-1].cause == "probes: matrix (by p)"


async def test_failed_probes_are_kept_with_what_they_showed(
    client: Client, services: Services, kept: Heard
) -> None:
    finding = {"detector": "repetition", "reason": "period", "value": 64, "threshold": 16}
    word = {
        "failed": 3,
        "passed": 1,
        "class": "long",
        "findings": [finding],
        "reason": "matrix",
        "host": "h7",
    }
    unit = await post(client, "/api/units/a/probes", word)
    assert unit["state"] == "quarantine"
    verdict, *changes = kept.records
    assert verdict.subject is Subject.VERDICT
    assert verdict.cause == "probes: 3 of 4 failed; matrix"
    assert (verdict.context, verdict.host) == ("long", "h7")
    assert verdict.findings[0].name == "repetition.period"
    assert {change.cause for change in changes} == {"probes: matrix"}


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({}, 400),
        ({"failed": 1}, 409),
        ({"passed": 1, "release": "r9"}, 409),
        ({"failed": 1, "class": "no such"}, 400),
        ({"passed": -1}, 400),
        ({"passed": 1.5}, 400),
        ({"passed": True}, 400),
        ({"failed": 1, "class": "long", "findings": "x"}, 400),
        ({"failed": 1, "class": "long", "findings": [{}]}, 400),
        ({"failed": 1, "class": "long", "findings": [{"detector": "a", "reason": 1}]}, 400),
    ],
)
async def test_probes_that_cannot_be_counted_are_refused(
    client: Client, services: Services, kept: Heard, wrong: dict[str, Any], status: int
) -> None:
    before = services.ledger.snapshot()
    await post(client, "/api/units/a/probes", {"reason": "x", **wrong}, status)
    assert services.ledger.snapshot() == before
    assert not kept.records


@pytest.mark.parametrize("what", ["verification", "probes"])
async def test_an_unknown_unit_is_said(client: Client, what: str) -> None:
    await post(client, f"/api/units/nobody/{what}", {"reason": "x"}, 404)
