"""Several sidecars, one real Redis, one view; and what they do without it."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from extproc.health.shared import SharedState, supersedes
from extproc.health.states import State
from extproc.health.stores import StoreError
from extproc.health.stores.fleet import Fleet
from extproc.health.stores.redis_link import RedisLink
from tests.redis_server import RedisServer
from tests.unit.health.fake_ledger import FakeLedger
from tests.waiting import until

INDEX = "p:states"


class Watcher:
    def __init__(self) -> None:
        self.ok = self.failed = self.adopted = 0

    def fleet_synced(self, ok: bool) -> None:
        self.ok += ok
        self.failed += not ok

    def fleet_adopted(self, number: int) -> None:
        self.adopted += number


class Sidecar:
    """A fake ledger with a real fleet."""

    def __init__(self, name: str, url: str, ttl: float = 60.0, period: float = 0.1) -> None:
        self.ledger = FakeLedger(name)
        self.watcher = Watcher()
        self.link = RedisLink(url, "p", ttl, timeout=1.0)
        self.fleet = Fleet(self.link, self.ledger, self.watcher, period=period)

    def decide(self, unit: str, state: State, context: str = "short") -> None:
        self.ledger.change(unit, state, context)
        self.fleet.nudge()


@pytest.fixture
async def client(redis: RedisServer) -> AsyncIterator[Any]:
    made = Redis.from_url(redis.url)
    try:
        yield made
    finally:
        await made.aclose()


@asynccontextmanager
async def running(*sidecars: Sidecar) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for sidecar in sidecars:
            task = asyncio.create_task(sidecar.fleet.run())
            stack.push_async_callback(sidecar.link.close)
            stack.push_async_callback(_ended, task)
        yield


async def _ended(task: asyncio.Task[None]) -> None:
    while not task.done():  # as Persistence does: the client may swallow a cancellation
        task.cancel()
        await asyncio.wait([task], timeout=1.0)


def agree(sidecars: list[Sidecar]) -> bool:
    return all(sidecar.ledger.states == sidecars[0].ledger.states for sidecar in sidecars)


async def test_the_script_holds_what_supersedes_whatever_the_order(redis: RedisServer) -> None:
    link, chance = RedisLink(redis.url, "p"), random.Random(7)
    for number in range(150):
        unit = f"u{number}"
        told = [
            SharedState(
                unit, "c", chance.choice(list(State)), chance.randint(0, 3), "", str(at),
                chance.choice("xyz"), float(at),
            )
            for at in range(5)
        ]  # fmt: skip
        held: SharedState | None = None
        for state in told:
            heard = await link.exchange([state])
            if supersedes(state, held):
                held = state
            assert held in heard.told
    await link.close()


async def test_three_sidecars_take_over_what_one_decided(redis: RedisServer) -> None:
    # The issue allows two seconds with the default period of one.
    three = [Sidecar(name, redis.url, period=1.0) for name in "xyz"]
    async with running(*three):
        await until(lambda: all(sidecar.watcher.ok for sidecar in three))
        three[0].decide("a", State.QUARANTINE)
        await until(lambda: all(s.ledger.state("a") is State.QUARANTINE for s in three), 2)
        three[1].decide("a", State.OBSERVE)  # an operator lets it in again, elsewhere
        await until(lambda: all(s.ledger.state("a") is State.OBSERVE for s in three), 2)
    assert agree(three)


async def test_decisions_at_the_same_time_end_in_the_graver_for_all(redis: RedisServer) -> None:
    three = [Sidecar(name, redis.url) for name in "xyz"]
    three[0].decide("a", State.OBSERVE)
    three[1].decide("a", State.QUARANTINE)
    three[2].decide("a", State.OBSERVE)
    async with running(*three):
        await until(lambda: agree(three) and three[2].ledger.state("a") is State.QUARANTINE)
    assert three[2].ledger.states["a", "short"].by == "y"


async def test_no_clock_decides(redis: RedisServer) -> None:
    one, two = Sidecar("x", redis.url), Sidecar("y", redis.url)
    future = SharedState("a", "short", State.PASS, 1, "r1", "cleared", "x", 4e9)
    one.ledger.states[future.key] = future
    two.decide("a", State.OBSERVE)
    two.decide("a", State.QUARANTINE)  # later by its epoch, earlier by its clock
    async with running(one, two):
        await until(lambda: one.ledger.state("a") is State.QUARANTINE)


async def test_an_operator_s_word_and_every_class_are_told(redis: RedisServer) -> None:
    one, two = Sidecar("x", redis.url), Sidecar("y", redis.url)
    one.decide("vllm:0.9|m", State.QUARANTINE, "*")
    one.decide("vllm:0.9|m", State.OBSERVE, "long")
    async with running(one, two):
        await until(lambda: agree([one, two]))
    assert two.watcher.adopted == 2


async def test_without_redis_states_stay_and_all_is_told_afterwards(
    redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = Sidecar("x", redis.url), Sidecar("y", redis.url)
    one.decide("a", State.OBSERVE)
    async with running(one, two):
        await until(lambda: agree([one, two]))
        redis.stop()
        await until(lambda: one.watcher.failed >= 3 and two.watcher.failed >= 3)
        assert "127.0.0.1" in one.fleet.trouble
        one.decide("a", State.QUARANTINE)  # local decisions go on
        two.decide("b", State.OBSERVE)
        assert two.ledger.state("a") is State.OBSERVE
        redis.start()  # and has forgotten everything
        await until(lambda: agree([one, two]) and not one.fleet.trouble + two.fleet.trouble)
    assert two.ledger.state("a") is State.QUARANTINE
    assert one.ledger.state("b") is State.OBSERVE
    logged = [record.getMessage() for record in caplog.records]
    assert sum("cannot be reached" in line for line in logged) == 2, "once for each sidecar"
    assert sum("reached again" in line for line in logged) == 2


async def test_a_sidecar_starts_without_redis_and_meets_it_later(redis: RedisServer) -> None:
    redis.stop()
    one = Sidecar("x", redis.url)
    assert not await one.fleet.sync()
    one.decide("a", State.OBSERVE)
    redis.start()
    async with running(one):
        await until(lambda: one.watcher.ok > 0)
    assert not one.fleet.trouble


async def test_a_newcomer_takes_over_what_the_fleet_holds(redis: RedisServer) -> None:
    one = Sidecar("x", redis.url)
    one.decide("a", State.OBSERVE)
    one.decide("a", State.QUARANTINE)
    assert await one.fleet.sync()
    two = Sidecar("y", redis.url)
    two.decide("a", State.OBSERVE)  # its own first epoch
    assert await two.fleet.sync()
    assert two.ledger.state("a") is State.QUARANTINE
    await one.link.close()
    await two.link.close()


async def test_a_state_is_forgotten_when_nobody_tells_it_any_more(
    redis: RedisServer, client: Any
) -> None:
    one = Sidecar("x", redis.url, ttl=0.5)
    one.decide("a", State.OBSERVE)
    assert await one.fleet.sync()
    assert 0 < await client.pttl("p:state:a#short") <= 500
    await one.link.close()
    two = Sidecar("y", redis.url)
    deadline = time.monotonic() + 20
    while await client.exists("p:state:a#short"):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    assert await two.fleet.sync()
    assert two.ledger.states == {}
    await two.link.close()


async def test_prefixes_keep_fleets_apart(redis: RedisServer) -> None:
    one = Sidecar("x", redis.url)
    one.decide("a", State.QUARANTINE)
    await one.fleet.sync()
    other = RedisLink(redis.url, "q")
    assert (await other.exchange([])).told == []
    await one.link.close()
    await other.close()


GARBAGE = [
    b"",
    b"\xff\xfe",
    b"{",
    b"[1, 2]",
    b'"text"',
    b"null",
    b"{}",
    b"1e999",
    b"[" * 5000,
    json.dumps({"epoch": "many", "state": "quarantine", "by": "x"}).encode(),
    json.dumps(SharedState("b", "short", State.PASS, 9, "", "", "x", 0).as_dict()).encode(),
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
async def test_garbage_in_an_entry_is_passed_over_and_told(
    redis: RedisServer, client: Any, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    await client.sadd(INDEX, "p:state:a#short")
    await client.set("p:state:a#short", garbage)
    one = Sidecar("x", redis.url)
    one.decide("good", State.OBSERVE)
    for _ in range(3):
        assert await one.fleet.sync()
    assert one.ledger.state("a") is State.PASS
    assert one.fleet.unreadable == ("p:state:a#short",)
    assert sum("what no sidecar tells" in record.getMessage() for record in caplog.records) == 1
    await one.link.close()


async def test_a_sidecar_s_own_state_replaces_garbage(redis: RedisServer, client: Any) -> None:
    await client.set("p:state:a#short", b"garbage")
    one, two = Sidecar("x", redis.url), Sidecar("y", redis.url)
    one.decide("a", State.QUARANTINE)
    assert await one.fleet.sync()
    assert await two.fleet.sync()
    assert two.ledger.state("a") is State.QUARANTINE
    assert two.fleet.unreadable == ()
    await one.link.close()
    await two.link.close()


async def test_entries_of_another_type_are_left_alone(redis: RedisServer, client: Any) -> None:
    await client.lpush("p:state:a#short", "somebody's")
    one = Sidecar("x", redis.url)
    one.decide("a", State.QUARANTINE)
    one.decide("b", State.OBSERVE)
    assert await one.fleet.sync()
    assert one.fleet.unreadable == ("p:state:a#short",)
    assert await client.lrange("p:state:a#short", 0, -1) == [b"somebody's"]
    await one.link.close()


async def test_an_index_of_another_type_is_told_and_left_alone(
    redis: RedisServer, client: Any
) -> None:
    await client.set(INDEX, "somebody's")
    one = Sidecar("x", redis.url)
    one.decide("a", State.QUARANTINE)
    assert not await one.fleet.sync()
    assert "p:states is somebody else's" in one.fleet.trouble
    assert "fleet.prefix" in one.fleet.trouble
    assert await client.get(INDEX) == b"somebody's"
    await one.link.close()


async def test_an_index_without_end_is_refused(redis: RedisServer, client: Any) -> None:
    await client.sadd(INDEX, *range(20_001))
    one = Sidecar("x", redis.url)
    assert not await one.fleet.sync()
    assert "somebody else's" in one.fleet.trouble
    await one.link.close()


async def test_a_wrong_password_is_told_without_showing_it(redis: RedisServer) -> None:
    redis.stop()
    redis.start("--requirepass", "hunter2")
    for url in (redis.url, redis.url.replace("//", "//:letmein@")):
        one = Sidecar("x", url)
        assert not await one.fleet.sync()
        assert "put the user and password into fleet.url" in one.fleet.trouble
        assert "letmein" not in one.fleet.trouble
        await one.link.close()
    good = Sidecar("x", redis.url.replace("//", "//:hunter2@"))
    assert await good.fleet.sync()
    await good.link.close()


async def test_a_replica_is_told(tmp_path: Path, redis: RedisServer) -> None:
    (tmp_path / "replica").mkdir()
    replica = RedisServer(tmp_path / "replica")
    replica.start("--replicaof", "127.0.0.1", str(redis.port))
    try:
        one = Sidecar("x", replica.url)
        one.decide("a", State.OBSERVE)
        assert not await one.fleet.sync()
        assert "must name the primary" in one.fleet.trouble
        await one.link.close()
    finally:
        replica.stop()


ANSWERS = {
    "http": b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
    "silence": b"",
    "binary": os.urandom(4096),
    "wrong types": b"$-1\r\n" * 50,
    "numbers": b":1\r\n" * 50,
    "nested": b"*1\r\n" * 3000,
    "a length without end": b"$999999999\r\nxx",
    "a negative length": b"$-7\r\n*-9\r\n",
    "texts": b"+OK\r\n" * 50,
    "odd array": b"+OK\r\n+OK\r\n" + b"*1\r\n$1\r\na\r\n" * 20,
    "no length": b"$x\r\n*y\r\n",
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_a_server_that_is_no_redis_is_told_and_local_decisions_go_on(name: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            writer.write(ANSWERS[name])
            await writer.drain()
            while await reader.read(4096):
                writer.write(ANSWERS[name])
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    one = Sidecar("x", f"redis://127.0.0.1:{port}")
    one.link._timeout = 0.3
    one.decide("a", State.OBSERVE)
    try:
        for _ in range(2):
            assert not await one.fleet.sync()
        assert f"redis://127.0.0.1:{port}" in one.fleet.trouble
        one.decide("a", State.QUARANTINE)
        assert one.ledger.state("a") is State.QUARANTINE
    finally:
        await one.link.close()
        server.close()


@pytest.mark.parametrize("url", ["http://x", "nonsense", "redis://h:port", "redis://[::1", ""])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(StoreError, match=r"fleet\.url"):
        RedisLink(url)


@pytest.mark.parametrize("steps", range(6))
async def test_a_stop_that_comes_with_news_ends_the_loop(redis: RedisServer, steps: int) -> None:
    one = Sidecar("x", redis.url, period=60.0)
    task = asyncio.create_task(one.fleet.run())
    await asyncio.sleep(0)
    one.fleet.nudge()
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    _, pending = await asyncio.wait([task], timeout=20)
    assert not pending, "the cancellation was swallowed"
    await one.link.close()
