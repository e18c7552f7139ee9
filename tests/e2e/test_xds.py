"""Real Envoys that take endpoint health and canary weights from the sidecar's xDS server.

The front's health checks and outlier detection are taken out: only xDS can move traffic here.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import pytest

from extproc.demo.ports import free_ports
from tests.e2e.conftest import Make
from tests.e2e.gateway import Gateway, eventually
from tests.e2e.upstream import HEALTHY_JSON, HEALTHY_STREAM, answers

UNITS = [
    {"id": "unit-a", "release": "r1", "clusters": ["unit_a"], "fallback": ["unit-b"]},
    {"id": "unit-b", "release": "r1", "clusters": ["unit_b"], "verified": True},
]


def sidecar(port: int, **clusters: Any) -> dict[str, Any]:
    """Settings of a sidecar that serves xDS."""
    endpoints = [
        {"address": "envoy://unit_a", "unit": "unit-a"},
        {"address": "envoy://unit_b", "unit": "unit-b", "priority": 1},
    ]
    return {
        "units": UNITS,
        "xds": {
            "address": f"127.0.0.1:{port}",
            "clusters": [{"name": "llm", "endpoints": endpoints, **clusters}],
            "runtime": {"keys": [{"key": "canary.unit-b", "unit": "unit-b", "weight": 100}]},
        },
    }


def grpc_source(port: int) -> dict[str, Any]:
    service = {"envoy_grpc": {"cluster_name": "xds"}}
    return {
        "resource_api_version": "V3",
        "api_config_source": {
            "api_type": "GRPC",
            "transport_api_version": "V3",
            "grpc_services": [service],
        },
    }


def follow(port: int, ads: bool = False, canary: bool = False) -> Callable[[Any], None]:
    """Changes the standalone configuration to follow the xDS server at ``port``."""

    def change(config: dict[str, Any]) -> None:
        source = {"ads": {}, "resource_api_version": "V3"} if ads else grpc_source(port)
        config["node"] = {"id": "envoy-1", "cluster": "gateway"}
        if ads:
            config["dynamic_resources"] = {
                "ads_config": grpc_source(port)["api_config_source"],
            }
        rtds = {"name": "semantic", "rtds_layer": {"name": "semantic", "rtds_config": source}}
        config["layered_runtime"]["layers"].insert(0, rtds)
        static = config["static_resources"]
        llm = next(cluster for cluster in static["clusters"] if cluster["name"] == "llm")
        for name in ("load_assignment", "health_checks", "outlier_detection"):
            del llm[name]
        del llm["typed_extension_protocol_options"]
        llm["type"] = "EDS"
        llm["eds_cluster_config"] = {"eds_config": source}
        address = {"socket_address": {"address": "127.0.0.1", "port_value": port}}
        options = {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": {"http2_protocol_options": {}},
        }
        static["clusters"].append(
            {
                "name": "xds",
                "type": "STATIC",
                "connect_timeout": "0.25s",
                "typed_extension_protocol_options": {
                    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options
                },
                "load_assignment": {
                    "cluster_name": "xds",
                    "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
                },
            }
        )
        if canary:
            manager = static["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
            fraction = {
                "runtime_key": "canary.unit-b",
                "default_value": {"numerator": 0, "denominator": "HUNDRED"},
            }
            manager["route_config"]["virtual_hosts"][0]["routes"].insert(
                0,
                {
                    "match": {"prefix": "/", "runtime_fraction": fraction},
                    "route": {"cluster": "unit_b", "timeout": "0s"},
                },
            )

    return change


async def start(gateway: Make, *scripts: Any, **options: Any) -> Gateway:
    (port,) = free_ports(1)
    hard = options.pop("hard", "unhealthy")
    return await gateway(*scripts, sidecar=sidecar(port, hard=hard), change=follow(port, **options))


def told(g: Gateway, unit: str, status: str) -> Callable[[], Any]:
    async def is_told() -> bool:
        return await g.eds(unit) == status

    return is_told


def weighs(g: Gateway, value: str) -> Callable[[], Any]:
    async def is_weight() -> bool:
        return await g.runtime("canary.unit-b") == value

    return is_weight


@pytest.mark.parametrize("ads", [False, True], ids=["own streams", "ads"])
async def test_a_unit_that_is_cut_off_loses_its_traffic_and_gets_it_back(
    gateway: Make, ads: bool
) -> None:
    g = await start(gateway, ads=ads)
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


async def test_a_canary_s_weight_goes_to_0_and_comes_back(gateway: Make) -> None:
    g = await start(gateway, canary=True)
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


async def test_no_envoy_refuses_what_it_is_sent(gateway: Make) -> None:
    g = await start(gateway)
    await g.command("unit-a", "quarantine", "a test")
    await eventually(told(g, "unit_a", "UNHEALTHY"))
    assert await g.stat("cluster.llm.update_rejected") == 0
    assert await g.stat("runtime.load_error") == 0
    found = await g.metrics()
    assert found["semantic_extproc_xds_streams"] == 2
    assert 'semantic_extproc_xds_refusals_total{type="eds"}' not in found
