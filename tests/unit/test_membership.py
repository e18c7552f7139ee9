"""Two sidecars on a real Redis: what they share, and that people are told of it once."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from extproc.config import parse
from extproc.detect import Kind
from extproc.health import Evidence, Response, State, Subject
from extproc.persistence import Persistence
from extproc.processor import Services
from extproc.sidecar import make_services
from tests.redis_server import RedisServer
from tests.waiting import until

UNIT = "{id: a, model: m, engine: vllm, quantization: fp8, release: r1}"


class Herald:
    """Tells people."""

    def __init__(self) -> None:
        self.told: list[Evidence] = []

    def evidence(self, record: Evidence) -> None:
        self.told.append(record)


class Member:
    """One sidecar without its servers."""

    def __init__(self, name: str, url: str, unit: str = UNIT) -> None:
        given = parse(
            f"units: [{unit}, {{id: b, release: r1}}]\n"
            f"store: {{kind: memory}}\nfleet: {{url: '{url}', instance: {name}}}\n",
            "x.yaml",
        )
        self.services: Services = make_services(given)
        self.herald = Herald()
        self.services.heralds.append(self.herald)
        self.persistence = Persistence(given, self.services)

    def corrupt(self, times: int = 3) -> None:
        for number in range(times):
            self.services.record(
                Response("a", "r1", "short", "h", Kind.CORRUPT, (), str(number), time.time())
            )

    @property
    def state(self) -> State:
        return self.services.ledger.unit_state("a")

    @property
    def states_told(self) -> list[State | None]:
        return [r.after for r in self.herald.told if r.subject is Subject.STATE]

    def words_told(self) -> list[str]:
        return [
            r.cause.partition(":")[0] for r in self.herald.told if r.subject is Subject.VERIFICATION
        ]

    def metric(self, name: str) -> float:
        return sum(
            sample.value
            for family in self.services.metrics.registry.collect()
            for sample in family.samples
            if sample.name == f"semantic_extproc_{name}"
        )


@asynccontextmanager
async def running(*members: Member) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for member in members:
            await member.persistence.start()
            stack.push_async_callback(member.persistence.stop)
        yield


async def test_a_state_taken_over_is_kept_by_all_and_told_by_one(redis: RedisServer) -> None:
    one, two = Member("g1", redis.url), Member("g2", redis.url)
    async with running(one, two):
        one.corrupt()
        await until(lambda: two.state is State.QUARANTINE)
        await until(lambda: State.QUARANTINE in one.states_told)
        (kept,) = await two.persistence.recent("a")
        assert kept.cause == "fleet: alarmed"
        await one.persistence.settle()
    assert two.states_told == []
    assert one.states_told == [State.OBSERVE, State.QUARANTINE]


async def test_of_two_that_see_it_at_once_one_tells(redis: RedisServer) -> None:
    one, two = Member("g1", redis.url), Member("g2", redis.url)
    async with running(one, two):
        for member in (one, two):
            member.corrupt()
        await until(lambda: State.QUARANTINE in one.states_told + two.states_told)
    told = one.states_told + two.states_told  # what waited is settled by the end
    assert told.count(State.QUARANTINE) == 1


async def test_without_redis_each_speaks_for_itself(redis: RedisServer) -> None:
    one, two = Member("g1", redis.url), Member("g2", redis.url)
    async with running(one, two):
        redis.stop()
        for member in (one, two):
            member.corrupt()
            await until(lambda m=member: State.QUARANTINE in m.states_told)  # type: ignore[misc]
        await until(lambda: one.metric("fleet_up") == 0)
        one.services.announce(one.services.ledger.hold_out("b", "x", time.time()))
        assert one.herald.told[-1].unit == "b", "nothing waits for a fleet that is away"


async def test_an_operator_s_word_is_told_by_the_sidecar_that_heard_it(
    redis: RedisServer,
) -> None:
    one, two = Member("g1", redis.url), Member("g2", redis.url)
    async with running(one, two):
        ledger = one.services.ledger
        one.services.announce(ledger.hold_out("a", "a driver update", time.time()))
        await until(lambda: two.services.ledger.held("a") is not None)
        await until(lambda: one.states_told == [State.QUARANTINE])
        # What only one of them knows of is told by that one, whoever told of the unit before.
        one.services.announce(ledger.let_in("a", "done", time.time()))
        await until(lambda: two.services.ledger.held("a") is None)
        two.services.announce(two.services.ledger.let_in("a", "again", time.time()))
        await until(lambda: len(two.states_told) == 1)
    assert one.states_told == [State.QUARANTINE, one.states_told[1]]
    assert len(one.states_told) == 2


async def test_a_verification_is_shared_and_its_lapse_told_once(redis: RedisServer) -> None:
    one, two = Member("g1", redis.url), Member("g2", redis.url)
    async with running(one, two):
        now = time.time()
        one.services.announce(one.services.ledger.verify("b", "r1", now + 60, "gates", now))
        await until(lambda: two.services.ledger.verified("b"))
        await until(lambda: one.words_told() == ["verified"])
        for member in (one, two):
            member.services.clock = lambda: now + 61
            member.services.tick()
        assert not two.services.ledger.verified("b")
        await until(lambda: "lapsed" in one.words_told() + two.words_told())
    assert (one.words_told() + two.words_told()).count("lapsed") == 1
    assert two.words_told().count("verified") == 0


async def test_a_verification_that_is_withdrawn_ends_on_all(redis: RedisServer) -> None:
    one, two = Member("g1", redis.url), Member("g2", redis.url)
    async with running(one, two):
        now = time.time()
        one.services.announce(one.services.ledger.verify("b", "r1", now + 60, "gates", now))
        await until(lambda: two.services.ledger.verified("b"))
        two.services.announce(two.services.ledger.withdraw("b", "r1", "it loops", now))
        await until(lambda: not one.services.ledger.verified("b"))
        (latest, *_) = await one.persistence.recent("b")
        assert latest.cause == "fleet: withdrawn: it loops"


async def test_a_unit_that_is_defined_differently_is_noticed_and_kept_apart(
    redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    one = Member("g1", redis.url)
    two = Member("g2", redis.url, UNIT.replace("fp8", "int4"))
    async with running(one, two):
        await until(lambda: two.metric("fleet_definitions_differ") == 1)
        await until(lambda: one.metric("fleet_definitions_differ") == 1)
        assert "quantization is 'int4' here, 'fp8' on g1" in two.services.components["fleet"]()
        one.corrupt()
        await until(lambda: State.QUARANTINE in one.states_told)
        assert two.state is State.PASS
        two.corrupt()
        await until(lambda: State.QUARANTINE in two.states_told)  # its own, so it tells of it
    logged = [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
    assert sum("what is found here of it stays here" in line for line in logged) == 1
    assert sum("The states of this sidecar are the fleet's" in line for line in logged) == 1


async def test_a_sidecar_that_comes_back_under_the_same_definition_shares_again(
    redis: RedisServer,
) -> None:
    one = Member("g1", redis.url)
    two = Member("g2", redis.url, UNIT.replace("fp8", "int4"))
    async with running(one):
        async with running(two):
            one.corrupt()
            await until(lambda: State.QUARANTINE in one.states_told)
            assert two.state is State.PASS
        again = Member("g2", redis.url)
        async with running(again):
            assert again.state is State.QUARANTINE
            await until(lambda: one.metric("fleet_definitions_differ") == 0)
