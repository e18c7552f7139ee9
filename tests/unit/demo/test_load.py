"""The clients notice what they are given when nothing stands between them and a corrupt build."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
from aiohttp import web

from extproc.demo.load import WORKERS, Load, Tally
from extproc.demo.recorded import Replay, load

Served = Callable[[web.Application], Awaitable[str]]


@pytest.fixture
async def serve() -> AsyncIterator[Served]:
    """Serves an application, and gives the address for chats."""
    async with AsyncExitStack() as stack:

        async def start(application: web.Application) -> str:
            runner = web.AppRunner(application, shutdown_timeout=0.1)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            return f"http://127.0.0.1:{runner.addresses[0][1]}"

        yield start


async def asked(url: str, builds: set[str], requests: int) -> Tally:
    """What clients counted after at least so many requests."""
    clients = Load(url + "/v1/chat/completions", builds)
    running = asyncio.create_task(clients.run())
    while clients.tally.requests < requests:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    clients.end()
    await running
    return clients.tally


async def test_every_answer_of_a_corrupt_build_counts_by_its_text(serve: Served) -> None:
    url = await serve(Replay(load()["corrupt"], "unnamed").application())
    tally = await asked(url, set(), 24)
    assert tally.requests >= 24
    assert tally.corrupt_delivered == tally.requests
    assert tally.errors == 0


async def test_every_answer_of_a_corrupt_build_counts_by_its_name(serve: Served) -> None:
    url = await serve(Replay(load()["healthy"], "bad-build").application())
    tally = await asked(url, {"bad-build"}, 12)
    assert tally.corrupt_delivered == tally.requests
    assert tally.answers == {"bad-build": tally.requests}


async def test_no_answer_of_a_healthy_build_counts(serve: Served) -> None:
    url = await serve(Replay(load()["healthy"], "good-build").application())
    tally = await asked(url, {"bad-build"}, 36)
    assert (tally.corrupt_delivered, tally.errors) == (0, 0)


@pytest.mark.parametrize("status", [200, 503])
async def test_what_is_no_answer_is_an_error(serve: Served, status: int) -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=status, text="no healthy upstream")

    application = web.Application()
    application.router.add_post("/v1/chat/completions", refuse)
    tally = await asked(await serve(application), set(), 6)
    assert tally.errors == tally.requests
    assert tally.first_error


async def test_held_clients_ask_nothing_and_then_all_at_once(serve: Served) -> None:
    together, most = 0, 0

    async def slow(_: web.Request) -> web.Response:
        nonlocal together, most
        together += 1
        most = max(most, together)
        await asyncio.sleep(0.05)
        together -= 1
        return web.Response(status=503)

    application = web.Application()
    application.router.add_post("/v1/chat/completions", slow)
    clients = Load(await serve(application) + "/v1/chat/completions", set())
    clients.hold()
    running = asyncio.create_task(clients.run())
    await asyncio.sleep(0.1)
    assert clients.tally.requests == 0
    await clients.idle()
    clients.release_together()
    while most < WORKERS:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    clients.hold()
    await clients.idle()
    assert together == 0
    clients.end()
    await running
