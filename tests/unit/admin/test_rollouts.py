"""What Flagger and Argo Rollouts are told, through real HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from extproc.detect import Finding, Kind
from extproc.health import Response
from extproc.processor import Services
from extproc.units import Unit
from tests.unit.admin.client import Client
from tests.unit.services import services_of

UNITS = [Unit("a", release="r1", fallback=("b",)), Unit("b", release="r1", verified=True)]
PAYLOAD = {"name": "podinfo", "namespace": "test", "phase": "Progressing", "metadata": None}


@pytest.fixture
def services() -> Services:
    return services_of(*UNITS)


def answer(services: Services, kind: Kind, times: int = 1, release: str = "r1") -> None:
    found = (Finding("repetition", "period", 64, 16),) if kind is Kind.CORRUPT else ()
    for at in range(times):
        services.record(Response("a", release, "short", "h", kind, found, f"{kind}{at}", at))


def quarantine(services: Services) -> None:
    services.announce(services.ledger.hold_out("a", "a test", 1))


async def gate(client: Client, path: str = "", **metadata: str) -> tuple[int, str]:
    content = PAYLOAD | {"metadata": metadata}
    got = await client.post(f"/gates/flagger/a{path}", json=content)
    return got.status, await got.text()


async def test_a_unit_that_passes_may_advance(client: Client, services: Services) -> None:
    answer(services, Kind.CLEAN)
    assert await gate(client) == (200, "unit a passes\n")
    assert (await gate(client, "/rollback"))[0] == 403


async def test_a_quarantined_unit_may_not_advance_and_is_rolled_back(
    client: Client, services: Services
) -> None:
    quarantine(services)
    assert await gate(client) == (403, "unit a: it is in quarantine\n")
    assert (await gate(client, "/rollback"))[0] == 200


async def test_a_canary_may_name_its_release_and_a_least_number(
    client: Client, services: Services
) -> None:
    answer(services, Kind.CLEAN, 3)
    assert (await gate(client, release="r1"))[0] == 200
    assert await gate(client, release="r2") == (
        403,
        "unit a: release r2 has answered nothing yet\n",
    )
    assert await gate(client, min_responses="4") == (
        403,
        "unit a: 3 of 4 responses were judged\n",
    )
    assert (await gate(client, min_responses="3"))[0] == 200
    assert (await gate(client, min_responses="many"))[0] == 403


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"metadata": 3}'])
async def test_a_body_that_is_not_flagger_s_halts_the_canary(client: Client, body: bytes) -> None:
    for path in ("", "/rollback"):
        assert (await client.post(f"/gates/flagger/a{path}", data=body)).status == 400


async def test_a_unit_nobody_knows_neither_advances_nor_rolls_back(client: Client) -> None:
    for path in ("", "/rollback"):
        assert (await client.post(f"/gates/flagger/z{path}", json=PAYLOAD)).status == 404


async def measured(client: Client, query: str = "") -> dict[str, Any]:
    found: dict[str, Any] = await (await client.get(f"/api/units/a/rollout{query}")).json()
    return found


async def test_argo_gets_one_flat_object_of_numbers(client: Client, services: Services) -> None:
    answer(services, Kind.CLEAN, 398)
    answer(services, Kind.SUSPECT, 1)
    answer(services, Kind.UNCHECKED, 5)
    found = await measured(client)
    assert not any(isinstance(value, dict | list) for value in found.values())
    assert found["state"] == "pass"
    assert (found["pass"], found["observe"], found["quarantine"]) == (1, 0, 0)
    assert found["responses"] == 399
    assert found["corrupt_rate"] == 0
    assert found["suspect_rate"] == pytest.approx(1 / 399)


async def test_a_unit_that_has_answered_nothing_does_not_pass(client: Client) -> None:
    found = await measured(client)
    assert (found["state"], found["pass"], found["responses"]) == ("pass", 0, 0)


async def test_counts_are_of_the_latest_release_or_of_the_one_asked_for(
    client: Client, services: Services
) -> None:
    answer(services, Kind.CLEAN, 4)
    answer(services, Kind.CORRUPT, 1, "r2")
    assert (await measured(client))["corrupt_rate"] == 1
    assert (await measured(client, "?release=r1"))["responses"] == 4
    assert (await measured(client, "?release=r3"))["pass"] == 0


async def test_a_held_unit_says_so(client: Client, services: Services) -> None:
    quarantine(services)
    found = await measured(client)
    assert (found["pass"], found["quarantine"], found["held"]) == (0, 1, 1)
