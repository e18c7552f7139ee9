"""The link between a worker and the authority, over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from extproc.detect import Kind
from extproc.health import Ledger, Response, State
from extproc.processor import Services
from extproc.signals import Metrics
from extproc.units import Registry, Unit
from extproc.workers import hub as hubs
from extproc.workers.frames import Began, Judged
from extproc.workers.hub import Hub
from extproc.workers.link import CAPACITY, Link
from tests.waiting import until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "KEEP_SECONDS", 0.02)
    monkeypatch.setattr(hubs, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr("extproc.workers.link.METRICS_SECONDS", 0.02)


def response(number: int = 0, kind: Kind = Kind.CLEAN, marked: bool = False) -> Judged:
    return Judged(Response("a", "r1", "short", "h", kind, (), f"id{number}", 100.0, marked))


def services() -> Services:
    return Services(Registry(), Ledger([Unit("a", release="r1")]), Metrics())


def counts(found: Services, unit: str = "a") -> int:
    return sum(track.counts.total() for _, _, track in found.ledger.tracks(unit))


@asynccontextmanager
async def authority(path: Path, kept: object = None, durable: bool = True) -> AsyncIterator[Hub]:
    """A hub; ``durable``: whether its store works."""
    made = services()
    keeps = asyncio.Event()
    if durable:
        keeps.set()

    async def keep() -> bool:
        await keeps.wait()
        return True

    made.keep = keep
    hub = Hub(str(path), made)
    hub.restore(kept)
    await hub.start()
    try:
        yield hub
    finally:
        await hub.drain(0)


@asynccontextmanager
async def worker(
    path: Path, name: str = "worker-0", where: str = "", capacity: int = CAPACITY
) -> AsyncIterator[Link]:
    link = Link(str(path), name, Metrics(), where, capacity)
    link.start()
    try:
        yield link
    finally:
        await link.stop(0.1)


def waiting(link: Link) -> int:
    return len(link._queue)


async def test_records_reach_the_book_and_leave_the_queue_once_durable(tmp_path: Path) -> None:
    async with authority(tmp_path / "l") as hub, worker(tmp_path / "l") as link:
        for number in range(1200):  # more than go at once
            link.send(response(number))
        await until(lambda: counts(hub._services) == 1200 and waiting(link) == 0)


async def test_what_is_not_durable_is_sent_again_and_counted_once(tmp_path: Path) -> None:
    async with worker(tmp_path / "l") as link:
        async with authority(tmp_path / "l", durable=False) as first:
            for number in range(10):
                link.send(response(number))
            await until(lambda: counts(first._services) == 10)
            assert waiting(link) == 10
            before = first.snapshot()
        # One authority comes back with what was saved at some moment: here nothing, there all.
        async with authority(tmp_path / "l") as second:
            await until(lambda: counts(second._services) == 10 and waiting(link) == 0)
        link.send(response(11))
        async with authority(tmp_path / "l", before) as third:
            await until(lambda: waiting(link) == 0)
            assert counts(third._services) == 1


async def test_a_queue_that_is_full_drops_the_oldest_and_counts_it(tmp_path: Path) -> None:
    async with worker(tmp_path / "l", capacity=5) as link:
        for number in range(12):
            link.send(response(number))
        dropped = "semantic_extproc_link_dropped_total"
        assert link._metrics.registry.get_sample_value(dropped) == 7
        async with authority(tmp_path / "l") as hub:
            await until(lambda: counts(hub._services) == 5 and waiting(link) == 0)


async def test_a_full_queue_of_told_records_drops_none_of_them_from_the_book(
    tmp_path: Path,
) -> None:
    async with (
        authority(tmp_path / "l", durable=False) as hub,
        worker(tmp_path / "l", capacity=5) as link,
    ):
        for number in range(20):
            link.send(response(number))
            await until(lambda number=number: counts(hub._services) == number + 1)  # type: ignore[misc]
        dropped = "semantic_extproc_link_dropped_total"
        assert link._metrics.registry.get_sample_value(dropped) == 0


async def test_attempts_seen_by_two_workers_meet(tmp_path: Path) -> None:
    path = tmp_path / "l"
    async with (
        authority(path) as hub,
        worker(path, "worker-0") as one,
        worker(path, "worker-1") as other,
    ):
        one.send(response(1, Kind.CORRUPT, marked=True))
        await until(lambda: counts(hub._services) == 1)
        other.send(Began("id1", "b"))
        await until(lambda: hub._services.ledger.pairs["one"] == 1)


async def test_states_are_told_at_once_and_outlive_the_authority(tmp_path: Path) -> None:
    async with worker(tmp_path / "l") as link:
        async with authority(tmp_path / "l") as hub:
            await asyncio.wait_for(link.told.wait(), 5)
            assert link.states.state("a", "short") is State.PASS
            ledger = hub._services.ledger
            hub._services.announce(ledger.hold_out("a", "a test", 1.0))
            await until(lambda: link.states.state("a", "anything") is State.QUARANTINE)
        assert link.states.state("a", "short") is State.QUARANTINE
        async with authority(tmp_path / "l"):
            await until(lambda: link.states.state("a", "short") is State.PASS)


async def test_counters_outlive_their_worker_and_gauges_do_not(tmp_path: Path) -> None:
    def shown(hub: Hub, name: str) -> float:
        return sum(
            float(sample.value)
            for family in hub._services.metrics.exposed.collect()
            for sample in family.samples
            if sample.name == f"semantic_extproc_{name}"
        )

    path = tmp_path / "l"
    async with authority(path) as hub:
        for generation in (1, 2):
            async with worker(path) as link:
                link._metrics.chunks.inc(5)
                link._metrics.open_streams.set(3)
                link._metrics.hold_seconds.observe(0.2)
                await until(
                    lambda generation=generation: (  # type: ignore[misc]
                        shown(hub, "body_chunks_total") == 5 * generation
                        and shown(hub, "open_streams") == 3
                    )
                )
                assert hub.serving
            await until(lambda: not hub.serving)
            assert shown(hub, "open_streams") == 0
            assert shown(hub, "hold_seconds_count") == generation


async def test_nonsense_at_the_door_harms_nobody(tmp_path: Path) -> None:
    path = tmp_path / "l"
    async with authority(path) as hub, worker(path) as link:
        for nonsense in (b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\2[]", b'\0\0\0\x0b["records"]'):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(nonsense)
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()
        link.send(response())
        await until(lambda: counts(hub._services) == 1)


async def test_a_record_that_cannot_be_read_costs_no_other(tmp_path: Path) -> None:
    path = tmp_path / "l"
    async with authority(path) as hub, worker(path) as link:
        link.send(response(1))
        link.send(Judged(None))  # type: ignore[arg-type]
        link.send(response(3))
        await until(lambda: counts(hub._services) == 2 and waiting(link) == 0)


async def test_a_worker_that_gets_no_stream_while_others_do_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "l"
    async with (
        authority(path) as hub,
        worker(path, "worker-0", where=":1") as busy,
        worker(path, "worker-1", where=":2"),
    ):
        await until(lambda: len(hub._links) == 2)
        for number in range(3 * hubs.IDLE_AFTER):
            busy.send(response(number))
        await until(lambda: waiting(busy) == 0)
    told = [record.getMessage() for record in caplog.records if "no response" in record.msg]
    assert told == [
        "no response has come by worker-1 on :2: does Envoy's cluster list all workers?"
    ]
