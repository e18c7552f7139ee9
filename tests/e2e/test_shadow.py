"""Mirrored traffic through the real Envoy: both answers to one request are compared."""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Make
from tests.e2e.gateway import Gateway, eventually
from tests.e2e.upstream import BANG_JSON, BANG_STREAM, HEALTHY_JSON, answers
from tests.unit.gates.fake import Gates, checks


def mirror(config: dict[str, Any]) -> None:
    """Every request of the front goes to unit B's listener as well; its answer is dropped."""
    resources = config["static_resources"]
    (manager,) = resources["listeners"][0]["filter_chains"][0]["filters"]
    (host,) = manager["typed_config"]["route_config"]["virtual_hosts"]
    for route in host["routes"]:
        route["route"]["request_mirror_policies"] = [{"cluster": "shadow"}]
    llm = next(cluster for cluster in resources["clusters"] if cluster["name"] == "llm")
    shadow = {name: copy.deepcopy(llm[name]) for name in ("type", "connect_timeout")}
    address = {"envoy_internal_address": {"server_listener_name": "unit_b"}}
    endpoints = [{"lb_endpoints": [{"endpoint": {"address": address}}]}]
    shadow |= {
        "name": "shadow",
        "load_assignment": {"cluster_name": "shadow", "endpoints": endpoints},
    }
    resources["clusters"].append(shadow)


async def outcomes(g: Gateway) -> dict[tuple[str, str], int]:
    """By the verdicts of unit A and unit B."""
    _, content = await g.get("/api/pairs")
    found: dict[tuple[str, str], int] = {}
    for pair in content["pairs"]:
        assert (pair["first"]["unit"], pair["second"]["unit"]) == ("unit-a", "unit-b")
        for outcome in pair["outcomes"]:
            found[outcome["first"], outcome["second"]] = outcome["count"]
    return found


async def ask(g: Gateway, count: int) -> None:
    for number in range(count):
        assert (await g.ask(stream=bool(number % 2))).status == 200


@pytest.mark.parametrize("corrupt", [False, True])
async def test_a_shadow_is_paired_with_the_answer_that_the_client_got(
    gateway: Make, corrupt: bool, tmp_path: Path
) -> None:
    candidate = {"b": answers(BANG_STREAM, BANG_JSON)} if corrupt else {}
    g = await gateway(**candidate, change=mirror)
    await ask(g, 12)
    expected = {("clean", "corrupt" if corrupt else "clean"): 12}

    async def all_are_in() -> bool:
        return await outcomes(g) == expected

    await eventually(all_are_in, 20)
    gates = Gates(tmp_path)
    gates.serve("http://127.0.0.1:1")
    gates.config["sidecar"] = (
        f'admin_url = "{g.admin}"\ncandidate_unit = "unit-b"\nbaseline_unit = "unit-a"\n'
    )
    report = await asyncio.to_thread(gates.apart, "--gates", "5")
    found = checks(report)["task_success"]
    assert found["measured"]["test"] == "mcnemar"
    assert found["measured"]["pairs"] == 12
    assert found["measured"]["only_candidate"] == (12 if corrupt else 0)
    assert report["result"] == ("failed" if corrupt else "undecided")


async def test_a_retry_is_no_shadow(gateway: Make) -> None:
    g = await gateway(answers(BANG_STREAM, BANG_JSON))
    assert (await g.ask()).body != HEALTHY_JSON
    await g.counted("unit-a", corrupt=1)
    await g.counted("unit-b", clean=1)
    assert await outcomes(g) == {}
