"""The keeper: nothing waits for the store, nothing acknowledged is lost, trouble is told once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from extproc.health.evidence import Evidence
from extproc.health.states import State
from extproc.health.stores import Book, StoreError
from extproc.health.stores.keeper import Keeper, KeeperSettings
from extproc.health.stores.memory import MemoryStore
from extproc.health.stores.sqlite import SqliteStore
from tests.unit.health.fake_ledger import FakeLedger
from tests.unit.health.records import change, verdict
from tests.waiting import until

QUICK = KeeperSettings(batch=0.01, tick=0.05, backoff=0.02, longest_backoff=0.05)
NEVER = KeeperSettings(batch=0.01, tick=3600)


class Watcher:
    def __init__(self) -> None:
        self.dropped = self.failures = 0

    def record_dropped(self) -> None:
        self.dropped += 1

    def store_saved(self, ok: bool) -> None:
        self.failures += not ok


class Moody(MemoryStore):
    """Memory that fails or hangs on demand, and tells what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.calls: list[tuple[Book | None, list[str]]] = []

    async def save(self, book: Book | None, records: Sequence[Evidence]) -> None:
        self.calls.append((book, [record.id for record in records]))
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        await super().save(book, records)


@asynccontextmanager
async def running(keeper: Keeper) -> AsyncIterator[None]:
    task = asyncio.create_task(keeper.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def ledger() -> FakeLedger:
    return FakeLedger("me")


@pytest.fixture
def watcher() -> Watcher:
    return Watcher()


async def test_records_that_come_together_are_saved_together(
    ledger: FakeLedger, watcher: Watcher
) -> None:
    store = Moody()
    keeper = Keeper(store, ledger.snapshot, watcher, NEVER)
    async with running(keeper):
        for number in range(5):
            keeper.evidence(verdict(number))
        await until(lambda: bool(store.calls))
        keeper.evidence(verdict(9))
        await until(lambda: len(store.calls) == 2)
    assert store.calls == [
        (ledger.snapshot(), [verdict(number).id for number in range(5)]),
        (None, [verdict(9).id]),
    ]


async def test_a_changed_state_is_saved_with_its_book_at_once(
    ledger: FakeLedger, watcher: Watcher
) -> None:
    store = Moody()
    keeper = Keeper(store, ledger.snapshot, watcher, NEVER)
    async with running(keeper):
        ledger.change("a", State.QUARANTINE)
        keeper.evidence(change(1))
        await until(lambda: bool(store.calls))
    book, ids = store.calls[0]
    assert book == ledger.snapshot()
    assert ids == [change(1).id]


async def test_the_book_is_handed_over_at_each_tick(ledger: FakeLedger, watcher: Watcher) -> None:
    store = Moody()
    keeper = Keeper(store, ledger.snapshot, watcher, QUICK)
    async with running(keeper):
        await until(lambda: len(store.calls) == 2)
        ledger.change("a", State.OBSERVE)
        seen = len(store.calls)
        await until(lambda: len(store.calls) > seen)
    assert store.calls[0] == ({"version": 1, "states": []}, [])
    assert store.calls[-1] == (ledger.snapshot(), [])


async def test_flush_returns_when_it_is_on_the_disk(
    tmp_path: Path, ledger: FakeLedger, watcher: Watcher
) -> None:
    store = SqliteStore(tmp_path / "s.db")
    await store.open()
    keeper = Keeper(store, ledger.snapshot, watcher, NEVER)
    ledger.change("a", State.QUARANTINE)
    keeper.evidence(change(1))
    assert await keeper.flush()
    # The process could be killed here: the file alone must tell.
    copies = [(tmp_path / "s.db").read_bytes(), (tmp_path / "s.db-wal").read_bytes()]
    (tmp_path / "copy.db").write_bytes(copies[0])
    (tmp_path / "copy.db-wal").write_bytes(copies[1])
    other = SqliteStore(tmp_path / "copy.db")
    assert await other.open() == ledger.snapshot()
    assert await other.recent() == [change(1)]
    await other.close()
    await keeper.close()


async def test_flush_empties_a_queue_longer_than_one_save(
    ledger: FakeLedger, watcher: Watcher
) -> None:
    store = Moody()
    keeper = Keeper(store, ledger.snapshot, watcher, KeeperSettings(at_once=10))
    for number in range(35):
        keeper.evidence(verdict(number))
    assert await keeper.flush()
    assert len(await store.recent(limit=99)) == 35


async def test_nothing_waits_for_a_store_that_hangs(ledger: FakeLedger, watcher: Watcher) -> None:
    store = Moody()
    store.gate.clear()
    keeper = Keeper(store, ledger.snapshot, watcher, KeeperSettings(batch=0.01, capacity=10))
    async with running(keeper):
        for number in range(25):
            keeper.evidence(verdict(number))
        assert watcher.dropped == 15
        assert not await keeper.flush(0.05)
        assert await keeper.find(verdict(3).id) == verdict(3)
        store.gate.set()
        assert await keeper.flush()
    assert len(await store.recent()) == 10


@pytest.mark.parametrize("error", [StoreError("the disk is full"), ZeroDivisionError()])
async def test_a_failing_store_is_told_once_and_loses_nothing(
    ledger: FakeLedger, watcher: Watcher, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    store = Moody()
    store.error = error
    keeper = Keeper(store, ledger.snapshot, watcher, QUICK)
    async with running(keeper):
        keeper.evidence(verdict(1))
        await until(lambda: watcher.failures >= 3)
        assert keeper.trouble == (str(error) or "ZeroDivisionError")
        keeper.evidence(change(2))
        assert not await keeper.flush()
        store.error = None
        await until(lambda: not keeper.trouble)
        await until(lambda: len(store._records) == 2)
    told = [r for r in caplog.records if "the store fails" in r.getMessage()]
    assert len(told) == 1
    assert len([r for r in caplog.records if "works again" in r.getMessage()]) == 1
    assert await store.open() == ledger.snapshot(), "the book was not saved with what recovered"


async def test_the_disk_that_lost_its_file_gets_the_whole_book_again(
    tmp_path: Path, ledger: FakeLedger, watcher: Watcher
) -> None:
    path = tmp_path / "s.db"
    store = SqliteStore(path)
    await store.open()
    keeper = Keeper(store, ledger.snapshot, watcher, QUICK)
    ledger.change("a", State.QUARANTINE)
    assert await keeper.flush()
    for file in sorted(tmp_path.iterdir()):  # noqa: ASYNC240
        file.unlink()
    async with running(keeper):
        keeper.evidence(verdict(1))
        await until(lambda: watcher.failures == 1)
        await until(lambda: not keeper.trouble)
    await keeper.close()
    other = SqliteStore(path)
    assert await other.open() == ledger.snapshot()
    assert await other.recent() == [verdict(1)]
    await other.close()


async def test_close_saves_the_rest_and_does_not_hang(
    ledger: FakeLedger, watcher: Watcher, caplog: pytest.LogCaptureFixture
) -> None:
    store = Moody()
    keeper = Keeper(store, ledger.snapshot, watcher, NEVER)
    keeper.evidence(verdict(1))
    await keeper.close()
    assert store.calls == [(ledger.snapshot(), [verdict(1).id])]
    store.gate.clear()
    keeper.evidence(verdict(2))
    await keeper.close(0.05)
    assert "1 records could not be saved" in caplog.text


async def test_what_still_waits_is_found(ledger: FakeLedger, watcher: Watcher) -> None:
    store = Moody()
    await store.save(None, [verdict(1), verdict(2, "b")])
    keeper = Keeper(store, ledger.snapshot, watcher)
    keeper.evidence(verdict(3))
    keeper.evidence(verdict(4, "b"))
    assert await keeper.recent() == [verdict(4, "b"), verdict(3), verdict(2, "b"), verdict(1)]
    assert await keeper.recent("b", 1) == [verdict(4, "b")]
    assert await keeper.recent("b") == [verdict(4, "b"), verdict(2, "b")]
    assert await keeper.find(verdict(4).id) == verdict(4, "b")
    assert await keeper.find(verdict(1).id) == verdict(1)


@pytest.mark.parametrize("steps", range(6))
async def test_a_stop_that_comes_with_a_record_ends_the_loop(
    ledger: FakeLedger, watcher: Watcher, steps: int
) -> None:
    keeper = Keeper(MemoryStore(), ledger.snapshot, watcher, NEVER)
    task = asyncio.create_task(keeper.run())
    await asyncio.sleep(0)
    keeper.evidence(change(1))
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    _, pending = await asyncio.wait([task], timeout=20)
    assert not pending, "the cancellation was swallowed"
