"""Real Envoys that take endpoint health and canary weights from the sidecar's xDS server.

They run the configuration of docs/signals.md, without health checks and outlier detection: only xDS
can move traffic here.
"""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from extproc.demo.ports import free_ports
from tests.e2e.conftest import Make
from tests.e2e.gateway import Gateway, eventually
from tests.e2e.upstream import HEALTHY_JSON, HEALTHY_STREAM, answers

DOCS = Path(__file__).resolve().parents[2] / "docs"
UNITS = [
    {"id": "unit-a", "release": "r1", "clusters": ["unit_a"], "fallback": ["unit-b"]},
    {"id": "unit-b", "release": "r1", "clusters": ["unit_b"], "verified": True},
]


def documented() -> list[Any]:
    """The YAML blocks on xDS in docs/signals.md: the sidecar's, Envoy's, and the canary's."""
    text = (DOCS / "signals.md").read_text().partition("## xDS")[2]
    return [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", text, re.S)]


def sidecar(port: int, hard: str) -> dict[str, Any]:
    """Settings of a sidecar that serves xDS."""
    found = documented()[0]
    found["xds"]["address"] = f"127.0.0.1:{port}"
    found["xds"]["clusters"][0]["hard"] = hard
    return {"units": UNITS, **found}


def follow(
    port: int, ads: bool = False, canary: bool = False, delta: bool = False
) -> Callable[[Any], None]:
    """Changes the standalone configuration as documented. ``ads``: one stream for both types;
    ``delta``: only what changed."""

    def change(config: dict[str, Any]) -> None:
        _, envoy, routes = documented()
        llm, xds = envoy["static_resources"]["clusters"]
        (endpoint,) = xds["load_assignment"]["endpoints"][0]["lb_endpoints"]
        endpoint["endpoint"]["address"]["socket_address"]["port_value"] = port
        if delta:
            source = llm["eds_cluster_config"]["eds_config"]
            source["api_config_source"]["api_type"] = "DELTA_GRPC"
        if ads:
            source = llm["eds_cluster_config"]["eds_config"]
            config["dynamic_resources"] = {"ads_config": dict(source["api_config_source"])}
            del source["api_config_source"]  # the block names it once: both users change
            source["ads"] = {}
        config["node"], config["layered_runtime"] = envoy["node"], envoy["layered_runtime"]
        static = config["static_resources"]
        others = [cluster for cluster in static["clusters"] if cluster["name"] != "llm"]
        static["clusters"] = [*others, llm, xds]
        if canary:
            manager = static["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
            manager["route_config"]["virtual_hosts"][0]["routes"][:0] = routes["routes"]

    return change


async def start(gateway: Make, *scripts: Any, **options: Any) -> Gateway:
    (port,) = free_ports(1)
    hard = options.pop("hard", "unhealthy")
    return await gateway(*scripts, sidecar=sidecar(port, hard), change=follow(port, **options))


def told(g: Gateway, unit: str, status: str) -> Callable[[], Any]:
    async def is_told() -> bool:
        return await g.eds(unit) == status

    return is_told


def weighs(g: Gateway, value: str) -> Callable[[], Any]:
    async def is_weight() -> bool:
        return await g.runtime("canary.unit-b") == value

    return is_weight


@pytest.mark.parametrize("delta", [False, True], ids=["whole", "delta"])
@pytest.mark.parametrize("ads", [False, True], ids=["own streams", "ads"])
async def test_a_unit_that_is_cut_off_loses_its_traffic_and_gets_it_back(
    gateway: Make, ads: bool, delta: bool
) -> None:
    g = await start(gateway, ads=ads, delta=delta)
    await g.ask()
    assert (g.a.requests, g.b.requests) == (1, 0)
    await g.command("unit-a", "quarantine", "a test")
    await eventually(told(g, "unit_a", "UNHEALTHY"))
    for _ in range(5):
        assert (await g.ask()).status == 200
    assert (g.a.requests, g.b.requests) == (1, 5)
    await g.command("unit-a", "release", "a test")
    await eventually(told(g, "unit_a", "HEALTHY"))
    await g.ask()
    assert (g.a.requests, g.b.requests) == (2, 5)


async def test_draining_moves_traffic_as_well(gateway: Make) -> None:
    g = await start(gateway, hard="draining")
    await g.command("unit-a", "quarantine", "a test")
    await eventually(told(g, "unit_a", "DRAINING"))
    await g.ask()
    assert (g.a.requests, g.b.requests) == (0, 1)


async def test_without_a_way_out_a_unit_is_degraded_and_still_used(gateway: Make) -> None:
    g = await start(gateway)
    await g.command("unit-b", "quarantine", "a test")
    await eventually(told(g, "unit_b", "DEGRADED"))
    await g.command("unit-a", "quarantine", "a test")
    await eventually(told(g, "unit_a", "DEGRADED"))
    assert (await g.ask()).status == 200


async def test_a_stream_under_way_is_not_cut(gateway: Make) -> None:
    g = await start(gateway, answers(HEALTHY_STREAM, HEALTHY_JSON, gap=0.1))
    asking = asyncio.create_task(g.ask(stream=True))

    async def begun() -> bool:
        return g.a.requests == 1

    await eventually(begun)
    await g.command("unit-a", "quarantine", "a test")
    await eventually(told(g, "unit_a", "UNHEALTHY"))
    assert not asking.done()
    got = await asking
    assert got.complete
    assert got.body == b"".join(HEALTHY_STREAM)


@pytest.mark.parametrize("delta", [False, True], ids=["whole", "delta"])
async def test_a_canary_s_weight_goes_to_0_and_comes_back(gateway: Make, delta: bool) -> None:
    g = await start(gateway, canary=True, delta=delta)
    await eventually(weighs(g, "100"))
    await g.ask()
    assert (g.a.requests, g.b.requests) == (0, 1)
    await g.command("unit-b", "quarantine", "a test")
    await eventually(weighs(g, "0"))
    for _ in range(5):
        await g.ask()
    assert (g.a.requests, g.b.requests) == (5, 1)
    await g.command("unit-b", "release", "a test")

    async def back() -> bool:
        return await g.runtime("canary.unit-b") in ("1", "100")

    await eventually(back)


async def test_envoy_keeps_its_state_when_the_sidecar_dies(gateway: Make) -> None:
    g = await start(gateway, canary=True)
    await g.command("unit-b", "quarantine", "a test")
    await eventually(weighs(g, "0"))
    await eventually(told(g, "unit_b", "DEGRADED"))
    g.signal(signal.SIGKILL)

    async def noticed() -> bool:
        return await g.stat("cluster.xds.upstream_cx_active") == 0

    await eventually(noticed)
    assert await g.eds("unit_b") == "DEGRADED"
    assert await g.runtime("canary.unit-b") == "0"
    for _ in range(5):
        assert (await g.ask()).status == 200
    assert (g.a.requests, g.b.requests) == (5, 0)


@pytest.mark.parametrize("delta", [False, True], ids=["whole", "delta"])
async def test_no_envoy_refuses_what_it_is_sent(gateway: Make, delta: bool) -> None:
    g = await start(gateway, delta=delta)
    await g.command("unit-a", "quarantine", "a test")
    await eventually(told(g, "unit_a", "UNHEALTHY"))
    assert await g.stat("cluster.llm.update_rejected") == 0
    assert await g.stat("runtime.load_error") == 0
    found = await g.metrics()
    assert found["semantic_extproc_xds_streams"] == 2
    assert 'semantic_extproc_xds_refusals_total{type="eds"}' not in found
