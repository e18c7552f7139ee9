"""Three sidecars, one real Redis: what one gateway sees, all of them hold."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.e2e.conftest import HEALTHY, OTHER
from tests.e2e.gateway import Gateway, eventually
from tests.e2e.upstream import BANG_JSON, BANG_STREAM, Script, Upstream, answers
from tests.redis_server import RedisServer

BROKEN = answers(BANG_STREAM, BANG_JSON)

WITHIN = 2.0
"""Seconds that the fleet may take to agree: the product's promise."""


class People:
    """Where webhooks go: what they told."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    async def take(self, request: web.Request) -> web.Response:
        self.told.append((await request.json())["evidence"])
        return web.Response()


@pytest.fixture
async def people() -> AsyncIterator[tuple[People, str]]:
    made, app = People(), web.Application()
    app.router.add_post("/", made.take)
    async with TestServer(app) as server:
        yield made, str(server.make_url("/"))


@pytest.fixture
async def three(
    tmp_path: Path, redis: RedisServer, people: tuple[People, str]
) -> AsyncIterator[list[Gateway]]:
    """Three gateways with their own Envoys and engines. Only the first one's unit-a is broken."""
    async with AsyncExitStack() as stack:
        made = []
        scripts: list[Script] = [BROKEN, HEALTHY, HEALTHY]
        for number, script in enumerate(scripts):
            folder = tmp_path / f"gateway-{number}"
            folder.mkdir()
            fleet = {"url": redis.url, "instance": f"g{number}"}
            hook = {"name": "people", "url": people[1], "states": ["quarantine"]}
            sidecar = {"fleet": fleet, "webhooks": [hook]}
            g = Gateway(folder, Upstream(script), Upstream(OTHER), sidecar=sidecar)
            made.append(await stack.enter_async_context(g))
        yield made


async def all_hold(three: list[Gateway], condition: Callable[[dict[str, Any]], bool]) -> None:
    async def held() -> bool:
        return all([condition(await g.unit("unit-a")) for g in three])

    await eventually(held, WITHIN)


async def test_three_sidecars_agree_and_go_on_without_redis(
    three: list[Gateway], redis: RedisServer, people: tuple[People, str]
) -> None:
    first, second, third = three
    for _ in range(4):
        await first.ask()

    async def noticed() -> bool:
        return bool((await first.unit("unit-a"))["state"] == "quarantine")

    await eventually(noticed)
    await all_hold(three, lambda unit: unit["state"] == "quarantine" and unit["mode"] == "hard")
    found = await second.metrics()
    assert found["semantic_extproc_fleet_up"] == 1
    assert found["semantic_extproc_fleet_adopted_total"] >= 1

    # The engines behind the others never failed; their gateways avoid the unit all the same.
    async def avoided() -> bool:
        return (await third.ask()).headers["x-semantic-unit"] == "unit-b"

    await eventually(avoided)
    _, kept = await second.get("/api/evidence?unit=unit-a")
    assert kept["evidence"][0]["after"] == "quarantine"
    assert kept["evidence"][0]["cause"].startswith("fleet: ")

    async def told() -> bool:
        return bool(people[0].told)

    await eventually(told)
    redis.stop()

    async def alone() -> bool:
        _, health = await third.get("/healthz")
        return str(health["components"]["fleet"]).startswith("unreachable, decisions are local")

    await eventually(alone)
    assert (await third.unit("unit-a"))["state"] == "quarantine"
    assert await second.command("unit-a", "release", "rolled back") == 200
    assert (await second.unit("unit-a"))["state"] == "observe"
    assert third.log("sidecar").count("cannot be reached") == 1
    await second.kill()  # what it was told, it holds against the fleet after a restart
    redis.start()
    await second.serve()

    async def let_in() -> bool:
        return all([(await g.unit("unit-a"))["state"] == "observe" for g in three])

    await eventually(let_in)
    (once,) = people[0].told  # by the one that saw it, for all three
    assert (once["unit"], once["after"], once["cause"]) == ("unit-a", "quarantine", "alarmed")
    assert third.log("sidecar").count("reached again") == 1


async def test_an_operator_s_word_to_one_gateway_is_heard_by_all(three: list[Gateway]) -> None:
    assert await three[1].command("unit-a", "quarantine", "a driver update") == 200
    await all_hold(three, lambda unit: bool(unit["held_by_operator"]))
    assert await three[2].command("unit-a", "release", "done") == 200
    await all_hold(
        three, lambda unit: unit["held_by_operator"] is None and unit["state"] != "quarantine"
    )
