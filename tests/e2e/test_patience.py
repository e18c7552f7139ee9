"""An engine that sends its headers and then is silent: the hold outlives Envoy's timeout."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests.e2e.conftest import Make
from tests.e2e.gateway import Gateway, eventually
from tests.e2e.upstream import BANG_STREAM, OTHER_STREAM, Reply, Request, Script, stream

SILENCE = 2.5
"""Seconds: well over the filter's message_timeout, 1 s."""

LAUGHTER = stream(["ha"] * 6 + [" she laughed"])


def silent(pieces: list[bytes], after: int, go: asyncio.Event) -> Script:
    """Sends headers and ``after`` pieces at once, the rest after ``go``."""

    async def script(request: Request, reply: Reply) -> None:
        await reply.head()
        for piece in pieces[:after]:
            await reply.write(piece)
        await go.wait()
        for piece in pieces[after:]:
            await reply.write(piece)
            await asyncio.sleep(0.01)
        await reply.end()

    return script


async def extended(g: Gateway) -> None:
    """Waits until Envoy was asked for more time."""

    async def asked() -> bool:
        return await g.stat("http.unit_a.ext_proc.override_message_timeout_received") > 0

    await eventually(asked)


async def test_a_corrupt_answer_after_a_silence_in_the_beginning_is_retried(gateway: Make) -> None:
    go = asyncio.Event()
    g = await gateway(silent(BANG_STREAM, 4, go))
    asked = asyncio.create_task(g.ask(stream=True))
    await asyncio.sleep(SILENCE)
    go.set()
    got = await asked
    assert got.body == b"".join(OTHER_STREAM)
    assert got.headers["x-semantic-unit"] == "unit-b"
    assert await g.stat("http.unit_a.ext_proc.message_timeouts") == 0


async def test_an_engine_slower_than_envoy_s_timeout_is_waited_for_at_each_token(
    gateway: Make,
) -> None:
    # Every token takes longer than the filter's message_timeout, also those of the hold.
    async def slow(request: Request, reply: Reply) -> None:
        await reply.sse(LAUGHTER[:4] + LAUGHTER[-3:], gap=1.2)

    g = await gateway(slow)
    everyone = await asyncio.gather(*(g.ask(stream=True) for _ in range(3)))
    for got in everyone:
        assert got.body == b"".join(LAUGHTER[:4] + LAUGHTER[-3:])
        assert got.headers["x-semantic-unit"] == "unit-a"
    assert await g.stat("http.unit_a.ext_proc.message_timeouts") == 0
    await g.counted("unit-a", clean=3)


async def test_a_silence_after_the_headers_is_cut_at_the_patience(gateway: Make) -> None:
    go = asyncio.Event()
    g = await gateway(silent(LAUGHTER, 0, go), sidecar={"hold": {"patience": 2.0}})
    asked = asyncio.create_task(g.ask(stream=True))

    async def let_go() -> bool:
        found = await g.metrics()
        return found.get('semantic_extproc_hold_releases_total{reason="deadline"}', 0) == 1

    await eventually(let_go)
    go.set()
    got = await asked
    assert got.body == b"".join(LAUGHTER)
    assert got.headers["x-semantic-unit"] == "unit-a"
    assert await g.stat("http.unit_a.ext_proc.message_timeouts") == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "hung"])
async def test_a_sidecar_lost_in_the_silence_costs_no_byte(
    gateway: Make, number: signal.Signals
) -> None:
    # Hung: the granted time ends with the next message, which has the filter's own timeout again.
    go = asyncio.Event()
    g = await gateway(silent(LAUGHTER, 0, go))
    asked = asyncio.create_task(g.ask(stream=True))
    await extended(g)
    g.signal(number)
    go.set()
    try:
        got = await asyncio.wait_for(asked, 10)
    finally:
        if number is signal.SIGSTOP:
            g.signal(signal.SIGCONT)
    assert got.complete
    assert got.body == b"".join(LAUGHTER)


async def test_an_envoy_that_grants_nothing_lets_the_answer_pass(gateway: Make) -> None:
    # A patience that Envoy's configuration does not match: judged too late, but never broken.
    def strict(config: dict[str, object]) -> None:
        for listener in config["static_resources"]["listeners"][1:]:  # type: ignore[index]
            manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
            del manager["http_filters"][0]["typed_config"]["max_message_timeout"]

    go = asyncio.Event()
    g = await gateway(silent(LAUGHTER, 0, go), change=strict)
    asked = asyncio.create_task(g.ask(stream=True))
    await asyncio.sleep(SILENCE)
    go.set()
    got = await asked
    assert got.complete
    assert got.body == b"".join(LAUGHTER)
