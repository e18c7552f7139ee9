from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any

import pytest

from extproc.health.stores import StoreError
from extproc.probes.lease import RedisLease
from extproc.probes.matrix import Subject
from extproc.probes.prober import Prober
from extproc.probes.target import Target
from tests.redis_server import RedisServer
from tests.unit.probes.engine import Engine
from tests.unit.probes.prober import BANDS, QUICK, UNIT, running
from tests.unit.services import services_of
from tests.waiting import until


async def test_one_holds_the_lease_and_the_next_gets_a_greater_token(redis: RedisServer) -> None:
    one, other = (RedisLease(redis.url, "p", name, 0.3) for name in ("a", "b"))
    first = await one.hold()
    assert first > 0
    assert await other.hold() == 0
    assert await one.hold() == first
    await asyncio.sleep(0.4)  # it expires: "a" has died, or hangs
    second = await other.hold()
    assert second > first
    assert await one.hold() == 0
    await other.close()
    third = await one.hold()
    assert third > second
    await one.close()


async def test_results_of_an_earlier_holder_are_not_taken(redis: RedisServer) -> None:
    one, other = (RedisLease(redis.url, "p", name, 0.1) for name in ("a", "b"))
    first = await one.hold()
    await asyncio.sleep(0.2)
    second = await other.hold()
    assert await other.save(second, {"by": "b"})
    assert not await one.save(first, {"by": "a"})
    assert await one.load() == {"by": "b"}
    await one.close()
    await other.close()


async def test_a_redis_that_is_away_is_said_without_its_password(redis: RedisServer) -> None:
    redis.stop()
    lease = RedisLease(redis.url.replace("//", "//user:geheim@"), "p", "a")
    with pytest.raises(StoreError) as caught:
        await lease.hold()
    assert "geheim" not in str(caught.value)
    await lease.close()


async def test_one_of_two_sidecars_probes_and_both_know_the_results(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extproc.probes.prober.STEP", 0.01)
    engine = Engine()
    async with engine.serve() as server:
        subjects = [Subject(UNIT, Target(server.url, "m"), ("golden",))]

        def prober(name: str) -> Prober:
            lease = RedisLease(redis.url, "p", name, 3.0)
            return Prober(services_of(UNIT), subjects, BANDS, QUICK, lease)

        one, other = prober("a"), prober("b")
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(running(one))
            await until(lambda: len(one.results.of_unit("u")) == 2)
            await stack.enter_async_context(running(other))
            await until(lambda: len(other.results.of_unit("u")) == 2)
            assert not one.refuses()
            assert "another sidecar" in other.refuses()
            assert other.status() == "another sidecar is the fleet's prober"
            # Every request was the first one's, and the other knows what that has spent.
            spent = one.budget.used(time.time()).requests
            assert other.budget.used(time.time()).requests > 0
            assert spent >= engine.generated - 1
            await one.stop()
            await until(lambda: not other.refuses())
            assert other.budget.used(time.time()).requests >= spent


async def test_a_prober_that_loses_its_lease_stops_in_the_middle(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extproc.probes.prober.STEP", 0.01)
    engine, started, ended = Engine(), asyncio.Event(), asyncio.Event()

    async def slow(request: Any) -> Any:
        started.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    engine._chat = slow  # type: ignore[method-assign]
    async with engine.serve() as server:
        lease = RedisLease(redis.url, "p", "a", 1.0)
        subjects = [Subject(UNIT, Target(server.url, "m"), ("golden",))]
        prober = Prober(services_of(UNIT), subjects, BANDS, QUICK, lease)
        async with running(prober):
            await asyncio.wait_for(started.wait(), 20)
            redis.stop()
            await until(lambda: prober._working is None)
            assert prober.refuses()
