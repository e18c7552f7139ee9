"""Server-sent events of the admin port: bounded in number, in memory and in time."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer

from extproc.admin import feed as module
from extproc.admin.feed import MOST, Feed
from tests.e2e.gateway import eventually
from tests.unit.admin.client import Client


class World:
    """What the feed looks at."""

    def __init__(self) -> None:
        self.content: dict[str, Any] = {"units": []}
        self.looks = 0

    def look(self) -> dict[str, Any]:
        self.looks += 1
        return self.content


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def feed(world: World, monkeypatch: pytest.MonkeyPatch) -> Feed:
    monkeypatch.setattr(module, "SHARE", float("inf"))  # looks whenever it is told to
    return Feed(world.look)


@pytest.fixture
async def client(feed: Feed) -> AsyncIterator[Client]:
    app = web.Application()
    app.add_routes([web.get("/api/events", feed.handle)])
    async with TestClient(TestServer(app)) as made:
        yield made


async def event(response: ClientResponse) -> tuple[str, Any]:
    """The next event: its name and its data. Comments are passed over."""
    name, data = "", ""
    while True:
        line = (await asyncio.wait_for(response.content.readline(), 20)).decode().rstrip("\n")
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            data = line.removeprefix("data: ")
        elif not line and name:
            return name, json.loads(data)


async def until(condition: Callable[[], bool]) -> None:
    async def held() -> bool:
        return condition()

    await eventually(held, 20)


async def test_a_client_gets_the_picture_at_once_and_then_what_changes(
    client: Client, feed: Feed, world: World
) -> None:
    async with client.get("/api/events") as response:
        assert response.content_type == "text/event-stream"
        assert await event(response) == ("units", {"units": []})
        world.content = {"units": [1]}
        feed.look()
        assert await event(response) == ("units", {"units": [1]})


async def test_nothing_is_sent_while_nothing_changes(
    client: Client, feed: Feed, world: World
) -> None:
    async with client.get("/api/events") as response:
        await event(response)
        for _ in range(5):
            feed.look()
        world.content = {"units": [2]}
        feed.look()
        assert await event(response) == ("units", {"units": [2]})


async def test_nobody_looks_while_nobody_listens(feed: Feed, world: World) -> None:
    feed.look()
    assert world.looks == 0


async def test_a_look_that_takes_long_is_not_taken_again_soon(
    client: Client, feed: Feed, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHARE", 0.0001)
    async with client.get("/api/events") as response:
        await event(response)
        for _ in range(50):
            feed.look()
        assert world.looks == 1


async def test_one_client_too_many_is_refused_and_a_place_becomes_free_again(
    client: Client, feed: Feed
) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(MOST):
            await stack.enter_async_context(client.get("/api/events"))
        async with client.get("/api/events") as refused:
            assert refused.status == 503
            assert refused.headers["Retry-After"] == "10"
    await until(lambda: feed.clients == 0)
    async with client.get("/api/events") as response:
        assert response.status == 200


async def test_closing_ends_every_client_with_a_word_and_takes_no_more(
    client: Client, feed: Feed
) -> None:
    async with client.get("/api/events") as response:
        await event(response)
        feed.close()
        assert await event(response) == ("end", {})
        assert await asyncio.wait_for(response.content.read(), 20) == b""
    async with client.get("/api/events") as refused:
        assert refused.status == 503


async def test_a_client_that_reads_nothing_is_dropped_and_others_go_on(
    client: Client, feed: Feed, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 1.5)
    # A small window and large events: what is not read is soon not sent any more.
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(slow, (client.host, client.port))
        await loop.sock_sendall(slow, b"GET /api/events HTTP/1.1\r\nHost: a\r\n\r\n")
        await until(lambda: feed.clients == 1)
        async with client.get("/api/events") as quick:
            await event(quick)
            number = 0
            async with asyncio.timeout(30):
                while feed.clients > 1:
                    number += 1
                    world.content = {"units": [f"{number}" * 200_000]}
                    feed.look()
                    await event_of_any_size(quick)
            assert feed.clients == 1


async def event_of_any_size(response: ClientResponse) -> None:
    ended = b""
    while not ended.endswith(b"\n\n"):
        ended = (ended + await asyncio.wait_for(response.content.readany(), 20))[-2:]
