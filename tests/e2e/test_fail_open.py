"""Whatever happens to the sidecar, the client's bytes are complete and unchanged."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal

import pytest

from tests.e2e.conftest import HEALTHY, Make
from tests.e2e.gateway import eventually
from tests.e2e.upstream import (
    DONE,
    HEALTHY_JSON,
    HEALTHY_STREAM,
    Reply,
    Request,
    Script,
    answers,
    completion,
    event,
    stream,
)


def paused(pieces: list[bytes], at: int, reached: asyncio.Event, go: asyncio.Event) -> Script:
    """Streams ``pieces``, stops before the one at ``at`` until ``go``."""

    async def script(request: Request, reply: Reply) -> None:
        await reply.head()
        for number, piece in enumerate(pieces):
            if number == at:
                reached.set()
                await go.wait()
            await reply.write(piece)
            await asyncio.sleep(0.01)
        await reply.end()

    return script


@pytest.mark.parametrize("held", [False, True])
async def test_a_sidecar_killed_in_mid_stream_costs_no_byte(gateway: Make, held: bool) -> None:
    # Held: the beginning repeats, so its headers are still with the sidecar when it dies.
    pieces = stream(["ha"] * 6 + [" she laughed"]) if held else HEALTHY_STREAM
    reached, go = asyncio.Event(), asyncio.Event()
    g = await gateway(paused(pieces, 5, reached, go))
    asked = asyncio.create_task(g.ask(stream=True))
    await reached.wait()
    await asyncio.sleep(0.2)
    g.signal(signal.SIGKILL)
    await asyncio.sleep(0.2)
    go.set()
    got = await asked
    assert (got.status, got.complete) == (200, True)
    assert got.body == b"".join(pieces)
    assert ("x-semantic-unit" in got.headers) is not held


async def test_a_sidecar_that_is_gone_costs_nothing(gateway: Make) -> None:
    g = await gateway()
    g.signal(signal.SIGKILL)
    for streamed in (False, True):
        got = await g.ask(stream=streamed)
        assert got.body == (b"".join(HEALTHY_STREAM) if streamed else HEALTHY_JSON)
    await asyncio.sleep(1.5)  # several health-check rounds without an answer
    assert not await g.flags("unit_a"), "a dead sidecar changed the health of a unit"


async def test_a_sidecar_that_hangs_is_bounded_by_envoy(gateway: Make) -> None:
    reached, go = asyncio.Event(), asyncio.Event()
    pieces = stream(["ha"] * 6 + [" she laughed"])
    g = await gateway(paused(pieces, 5, reached, go))
    asked = asyncio.create_task(g.ask(stream=True))
    await reached.wait()
    g.signal(signal.SIGSTOP)
    go.set()
    try:
        got = await asyncio.wait_for(asked, 10)
    finally:
        g.signal(signal.SIGCONT)
    assert got.body == b"".join(pieces)


async def test_a_hold_on_a_stalled_upstream_ends_by_our_own_clock(gateway: Make) -> None:
    # Envoy would wait for its message_timeout here; the sidecar lets go first, on purpose.
    go = asyncio.Event()
    pieces = stream(["ha"] * 6 + [" she laughed"])
    g = await gateway(paused(pieces, 4, asyncio.Event(), go), sidecar={"hold": {"patience": 0}})
    asked = asyncio.create_task(g.ask(stream=True))

    async def let_go() -> bool:
        found = await g.metrics()
        return found.get('semantic_extproc_hold_releases_total{reason="gap"}', 0) == 1

    await eventually(let_go, 5)
    go.set()
    got = await asked
    assert got.body == b"".join(pieces)
    assert got.headers["x-semantic-unit"] == "unit-a"
    await g.counted("unit-a", clean=1)


async def test_a_suspicious_beginning_is_held_past_one_message_timeout_but_not_for_ever(
    gateway: Make,
) -> None:
    # A slow engine: every 0.3 s a blank. Neither Envoy's timeout (1 s) nor ours (2 s) may cut it.
    pieces = stream([" "] * 12 + [" and", " then", " it", " spoke"])
    g = await gateway(answers(pieces, b"", gap=0.3), sidecar={"hold": {"deadline": 2.0}})
    got = await g.ask(stream=True)
    assert got.body == b"".join(pieces)
    found = await g.metrics()
    assert found['semantic_extproc_hold_releases_total{reason="deadline"}'] == 1
    assert got.headers["x-semantic-unit"] == "unit-a"


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_body_of_20_megabytes_passes_unchanged(gateway: Make, streamed: bool) -> None:
    noise = os.urandom(15 << 20).hex()[: 20 << 20]
    words = [noise[at : at + 40000] for at in range(0, len(noise), 40000)]
    pieces = stream([f" {word}" for word in words])
    g = await gateway(answers(pieces, completion(noise)))
    got = await g.ask(stream=streamed)
    wanted = b"".join(pieces) if streamed else completion(noise)
    assert got.complete
    assert hashlib.sha256(got.body).digest() == hashlib.sha256(wanted).digest()
    assert (await g.metrics()).get('semantic_extproc_internal_errors_total{where="stream"}') is None


async def test_a_hundred_streams_at_once_are_all_complete(gateway: Make) -> None:
    g = await gateway(answers(HEALTHY_STREAM, HEALTHY_JSON, gap=0.02))
    everyone = await asyncio.gather(*(g.ask(stream=True) for _ in range(100)))
    assert all(got.complete and got.body == b"".join(HEALTHY_STREAM) for got in everyone)
    await g.counted("unit-a", clean=100)


async def test_a_client_that_goes_away_leaves_nothing_behind(gateway: Make) -> None:
    g = await gateway(answers(stream([f" word{i}" for i in range(2000)]), b"", gap=0.01))
    asked = asyncio.create_task(g.ask(stream=True))

    async def streaming() -> bool:
        return (await g.metrics())["semantic_extproc_open_streams"] == 1

    await eventually(streaming)
    asked.cancel()

    async def over() -> bool:
        return (await g.metrics())["semantic_extproc_open_streams"] == 0 and g.a.aborted == 1

    await eventually(over)
    await g.counted("unit-a", unchecked=1)
    assert not [name for name in await g.metrics() if "internal_errors" in name]


async def test_a_500_of_every_unit_reaches_the_client_unchanged(gateway: Make) -> None:
    async def broken(request: Request, reply: Reply) -> None:
        await reply.json(b'{"error": {"message": "out of memory"}}', status=500)

    g = await gateway(broken, broken)
    got = await g.ask()
    assert (got.status, got.body) == (500, b'{"error": {"message": "out of memory"}}')


async def test_a_reset_in_mid_stream_is_seen_by_the_client_after_every_byte(gateway: Make) -> None:
    async def cut(request: Request, reply: Reply) -> None:
        await reply.head()
        for piece in HEALTHY_STREAM[:6]:
            await reply.write(piece)
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.2)  # the bytes are through before the reset, which may overtake them
        reply.reset()

    g = await gateway(cut)
    got = await g.ask(stream=True)
    assert not got.complete
    assert got.body == b"".join(HEALTHY_STREAM[:6])


async def test_a_reset_before_the_answer_goes_to_the_other_unit(gateway: Make) -> None:
    async def cut(request: Request, reply: Reply) -> None:
        reply.reset()

    g = await gateway(cut)
    assert (await g.ask()).headers["x-semantic-unit"] == "unit-b"


async def test_a_slow_upstream_streams_as_slowly_as_without_us(gateway: Make) -> None:
    pieces = [event("", role="assistant"), event(" One"), event(" two"), event(" three"), DONE]
    g = await gateway(answers(pieces, b"", gap=0.5))
    got = await g.ask(stream=True)
    assert got.body == b"".join(pieces)


async def test_sigterm_lets_open_streams_end_and_then_stops(gateway: Make) -> None:
    reached, go = asyncio.Event(), asyncio.Event()
    g = await gateway(paused(HEALTHY_STREAM, 6, reached, go))
    asked = asyncio.create_task(g.ask(stream=True))
    await reached.wait()
    g.signal(signal.SIGTERM)
    await asyncio.sleep(0.5)
    assert g.process.running, "stopped with a stream open"
    go.set()
    got = await asked
    assert got.body == b"".join(HEALTHY_STREAM)

    async def stopped() -> bool:
        return not g.process.running

    await eventually(stopped)
    assert '"verdict":"clean"' in g.log("envoy")


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_stream_that_outlives_the_grace_is_complete_and_holds_nobody_up(
    gateway: Make, workers: int
) -> None:
    reached, go = asyncio.Event(), asyncio.Event()
    g = await gateway(
        paused(HEALTHY_STREAM, 6, reached, go),
        workers=workers,
        environment={"SEMANTIC_EXTPROC_GRPC__DRAIN_SECONDS": "1"},
    )
    asked = asyncio.create_task(g.ask(stream=True))
    await reached.wait()
    g.signal(signal.SIGTERM)

    async def stopped() -> bool:
        return not g.process.running

    await eventually(stopped)
    go.set()
    got = await asked
    assert (got.status, got.complete) == (200, True)
    assert got.body == b"".join(HEALTHY_STREAM)
    await g.serve()  # what passed unread is in the book as such
    await g.counted("unit-a", unchecked=1)


async def test_the_observability_mode_watches_and_changes_nothing(gateway: Make) -> None:
    def watch_only(config: dict[str, object]) -> None:
        for listener in config["static_resources"]["listeners"][1:]:  # type: ignore[index]
            manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
            extproc = manager["http_filters"][0]["typed_config"]
            extproc["observability_mode"] = True

    g = await gateway(HEALTHY, change=watch_only)
    got = await g.ask(stream=True)
    assert got.body == b"".join(HEALTHY_STREAM)
    assert "x-semantic-unit" not in got.headers

    async def seen() -> bool:
        return bool((await g.unit("unit-a"))["counts"]["clean"] == 1)

    await eventually(seen)
