"""The configuration is read again while streams are open and more begin."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest

from tests.e2e.conftest import OTHER, Make
from tests.e2e.gateway import Gateway, eventually
from tests.e2e.test_fail_open import paused
from tests.e2e.test_workers import held, restarted
from tests.e2e.upstream import HEALTHY_STREAM, stream


@pytest.fixture
async def asking(gateway: Make) -> AsyncIterator[Make]:
    """A gateway under load until the test ends; every answer must be whole."""
    stop = asyncio.Event()
    tasks: list[asyncio.Task[int]] = []

    async def load(g: Gateway) -> int:
        number = 0
        while not stop.is_set():
            got = await g.ask(stream=True)
            assert got.complete
            assert got.body == b"".join(HEALTHY_STREAM)
            number += 1
        return number

    async def make(*scripts: object, **options: object) -> Gateway:
        g = await gateway(*scripts, **options)
        tasks.extend(asyncio.create_task(load(g)) for _ in range(8))
        return g

    yield make
    stop.set()
    assert sum(await asyncio.gather(*tasks)) > 8


async def test_a_reload_under_load_drops_nothing(asking: Make) -> None:
    g = await asking(workers=2)

    async def outcome(word: str, number: int) -> None:
        key = f'semantic_extproc_config_reload_total{{outcome="{word}"}}'

        async def reached() -> bool:
            return (await g.metrics())[key] == number

        await eventually(reached)

    for number in range(1, 6):
        g.reconfigure(health={"clear_after": 50 + number}, hold={"tokens": 8 + number})
        await outcome("ok", number)
    good = (g.folder / "extproc.yaml").read_text()
    (g.folder / "extproc.yaml").write_text(good + "nonsense: 1\n")
    g.signal(signal.SIGHUP)
    await outcome("refused", 1)
    assert "no such setting" in g.log("sidecar")
    assert await g.stat("http.unit_a.ext_proc.failure_mode_allowed") == 0
    # A worker that is started again now goes by the last good configuration, not by that file.
    os.kill(g.pid("worker-1"), signal.SIGKILL)
    await restarted(g, "worker-1", "killed")
    (g.folder / "extproc.yaml").write_text(good.replace("drain_seconds: 20", "drain_seconds: 9"))
    g.signal(signal.SIGHUP)
    await outcome("ok", 6)
    assert "only a restart changes grpc.drain_seconds" in g.log("sidecar")
    assert not any("internal_errors" in name for name in await g.metrics())


@pytest.mark.parametrize("workers", [1, 2])
async def test_open_streams_go_by_what_they_began_with(gateway: Make, workers: int) -> None:
    # Late verdicts come to terminate streams: not those that are open already.
    pieces = stream(["The", " harbour", " lights", " went", " out", *(["!"] * 200)], "length")
    reached, go = asyncio.Event(), asyncio.Event()
    g = await gateway(paused(pieces, 6, reached, go), workers=workers)
    asked = asyncio.create_task(g.ask(stream=True))
    await reached.wait()
    await held(g, 1)
    g.reconfigure(late_verdict="terminate")

    async def taken() -> bool:
        return (await g.metrics())['semantic_extproc_config_reload_total{outcome="ok"}'] == 1

    await eventually(taken)
    g.a.script = OTHER
    await g.ask(stream=True)  # every worker has heard by then, or hears with this one
    go.set()
    assert (await asked).body == b"".join(pieces)
    g.a.script = paused(pieces, 6, asyncio.Event(), go)

    async def ended() -> bool:
        return b"semantic_corrupt" in (await g.ask(stream=True)).body

    await eventually(ended)
