"""Webhooks of a running sidecar: what they say, what they never say, and that none is lost at the
end."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.e2e.conftest import Make
from tests.e2e.gateway import eventually
from tests.e2e.upstream import answers, completion, stream

CANARY = "zanzibarine"
"""A word that nothing but the prompt and the response holds."""


class Receiver:
    """Keeps what it got; answers once ``open``."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.open = asyncio.Event()
        self.open.set()
        self.url = ""

    async def take(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.read())
        await self.open.wait()
        return web.Response()

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(body)["evidence"] for body in self.bodies]

    def settings(self) -> dict[str, Any]:
        return {"webhooks": [{"name": "test", "url": self.url, "verdicts": True, "timeout": 30}]}


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    made = Receiver()
    app = web.Application()
    app.router.add_post("/", made.take)
    async with TestServer(app) as server:
        made.url = str(server.make_url("/"))
        yield made
        made.open.set()


async def test_a_corrupt_unit_is_told_of_without_a_word_of_text(
    gateway: Make, receiver: Receiver
) -> None:
    text = f"{CANARY} {CANARY} " + "!" * 64
    script = answers(stream([*text.split(" ")[:2], *"!" * 64]), completion(text, tokens=70))
    g = await gateway(script, script, sidecar=receiver.settings())
    for _ in range(4):
        await g.ask(path=f"/v1/chat/completions?{CANARY}", headers={"x-user": CANARY})
        await g.ask(stream=True, path=f"/v1/chat/completions?{CANARY}")

    async def told() -> bool:
        return any(record["subject"] == "verdict" for record in receiver.records)

    await eventually(told)
    verdict = next(record for record in receiver.records if record["subject"] == "verdict")
    assert verdict["unit"] in ("unit-a", "unit-b")
    assert verdict["findings"]
    assert verdict["request_id"]
    everything = [body.decode() for body in receiver.bodies]
    everything += [g.log("sidecar"), str(await g.metrics()), str(await g.unit("unit-a"))]
    assert all(CANARY not in text for text in everything)


async def test_a_change_that_waits_is_delivered_after_sigterm(
    gateway: Make, receiver: Receiver
) -> None:
    receiver.open.clear()
    g = await gateway(sidecar=receiver.settings())
    await g.command("unit-a", "quarantine", "one")

    async def first() -> bool:
        return len(receiver.bodies) == 1

    await eventually(first)
    await g.command("unit-a", "release", "two")
    g.signal(signal.SIGTERM)

    async def draining() -> bool:
        return "draining" in g.log("sidecar")

    await eventually(draining)
    receiver.open.set()

    async def both() -> bool:
        return len(receiver.bodies) == 2

    await eventually(both)
    assert [record["cause"] for record in receiver.records] == ["operator: one", "operator: two"]

    async def ended() -> bool:
        return not g.process.running

    await eventually(ended)
    assert "were not delivered" not in g.log("sidecar")
