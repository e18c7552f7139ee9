"""What is rendered for each mesh, running in a real Envoy with the real sidecar."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Make, gateway
from tests.e2e.gateway import Gateway, Setup, eventually
from tests.e2e.upstream import (
    BANG_JSON,
    BANG_STREAM,
    HEALTHY_STREAM,
    OTHER_JSON,
    OTHER_STREAM,
    answers,
)
from tests.mesh import setups

__all__ = ["gateway"]

BANG = answers(BANG_STREAM, BANG_JSON)
Start = Callable[..., Any]


@pytest.fixture(params=["standalone", "istio", "envoy-gateway"])
def start(request: pytest.FixtureRequest, gateway: Make, tmp_path: Path) -> Start:
    """Starts a gateway of each kind: ``await start(a=script, **settings)``."""

    async def make(a: Any = None, b: Any = None, **change: Any) -> Gateway:
        change = {"health": {"pair_seconds": 0.2}, **change}
        options: dict[str, Any] = {name: value for name, value in (("a", a), ("b", b)) if value}
        setup: Setup
        if request.param == "istio":
            options["tls"] = setups.server_tls(tmp_path)
            setup = setups.istio(tmp_path, change)
        elif request.param == "envoy-gateway":
            setup = setups.gateway(tmp_path, change)
        else:
            setup = setups.standalone(change)
        return await gateway(setup=setup, **options)

    return make


async def test_garbage_is_retried_on_the_other_unit_and_its_unit_ejected(start: Start) -> None:
    g = await start(a=BANG)
    for stream in (True, False, True):
        got = await g.ask(stream=stream)
        assert got.status == 200
        assert got.body == b"".join(OTHER_STREAM) if stream else OTHER_JSON
        assert got.headers["x-semantic-unit"] == "unit-b"
        assert "x-semantic-verdict" not in got.headers

    async def ejected() -> bool:
        return "failed_outlier_check" in await g.flags("unit_a")

    await eventually(ejected)
    before = g.a.requests
    assert (await g.ask()).headers["x-semantic-unit"] == "unit-b"
    assert g.a.requests == before

    async def quarantined() -> bool:
        return "failed_active_health_check" in await g.flags("unit_a")

    await eventually(quarantined)


async def test_healthy_streams_are_intact_and_counted_to_unit_and_release(start: Start) -> None:
    g = await start()
    got = await g.ask(stream=True)
    assert got.body == b"".join(HEALTHY_STREAM)
    assert got.complete
    assert got.headers["x-semantic-unit"] == "unit-a"
    assert got.headers["x-semantic-release"] == (await g.unit("unit-a"))["release"] != ""
    await g.counted("unit-a", clean=1)


async def test_a_dead_sidecar_costs_nothing(start: Start) -> None:
    g = await start()
    await g.kill()
    got = await g.ask(stream=True)
    assert (got.status, got.body, got.complete) == (200, b"".join(HEALTHY_STREAM), True)
    assert "x-semantic-unit" not in got.headers


async def test_a_long_prompt_does_not_lose_its_retry(start: Start) -> None:
    g = await start(a=BANG)
    got = await g.ask(stream=True, prompt="p" * (2 << 20))
    assert got.body == b"".join(OTHER_STREAM)
