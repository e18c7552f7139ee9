"""What the SQLite store acknowledged is there afterwards, and for as long as it is to be."""

from __future__ import annotations

import asyncio
import signal
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extproc.health.evidence import Evidence
from extproc.health.stores.memory import MemoryStore
from extproc.health.stores.sqlite import DAY, SqliteStore
from tests.unit.health.records import change, verdict
from tests.unit.health.sqlite_files import asides, files, opened, writer


async def test_book_and_records_are_there_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with opened(path) as (store, book):
        assert book is None
        await store.save({"version": 1, "x": [1, 2.5, None, "é"]}, [verdict(1), change(2)])
        await store.save(None, [verdict(3, "b")])
    async with opened(path) as (store, book):
        assert book == {"version": 1, "x": [1, 2.5, None, "é"]}
        assert await store.recent() == [verdict(3, "b"), change(2), verdict(1)]
        assert await store.recent("a", 1) == [change(2)]
        assert await store.evidence(verdict(1).id) == verdict(1)
        assert await store.evidence("none") is None


async def test_a_record_that_is_saved_twice_is_kept_once(tmp_path: Path) -> None:
    async with opened(tmp_path / "s.db") as (store, _):
        await store.save(None, [verdict(1)])
        await store.save(None, [verdict(1), verdict(2)])
        assert await store.recent() == [verdict(2), verdict(1)]


async def test_a_book_that_did_not_change_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with opened(path) as (store, _):
        await store.save({"version": 1}, [])
        before = (tmp_path / "s.db-wal").read_bytes()
        await store.save({"version": 1}, [])
        assert (tmp_path / "s.db-wal").read_bytes() == before
        await store.save({"version": 2}, [])
        assert (tmp_path / "s.db-wal").read_bytes() != before


async def test_only_the_owner_may_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with opened(path) as (store, _):
        await store.save({"version": 1}, [])
        modes = {stat.S_IMODE(file.stat().st_mode) for file in files(tmp_path)}
    assert modes == {0o600}


Step = tuple[dict[str, int] | None, list[int]]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(
    st.lists(
        st.none()  # reopened
        | st.tuples(
            st.none() | st.dictionaries(st.text(max_size=4), st.integers(), max_size=3),
            st.lists(st.integers(0, 40), max_size=6, unique=True),
        ),
        max_size=12,
    ),
    st.integers(1, 20),
)
def test_any_course_of_saves_and_reopenings_reads_like_memory(
    steps: list[Step | None], most: int
) -> None:
    async def run(path: Path) -> None:
        memory, store = MemoryStore(max_records=most), SqliteStore(path, max_records=most)
        assert await store.open() is None
        for step in steps:
            if step is None:
                await store.close()
                store = SqliteStore(path, max_records=most)
                assert await store.open() == await memory.open()
                continue
            book, numbers = step
            # Ids as the sidecar makes them: none comes back once it is past its retention.
            records = [verdict(n) for n in numbers if await memory.evidence(verdict(n).id) is None]
            records = [r for r in records if r.id not in seen]
            seen.update(r.id for r in records)
            await store.save(book, records)
            await memory.save(book, records)
            assert await store.recent(limit=99) == await memory.recent(limit=99)
        await store.close()

    seen: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder) / "s.db"))


@pytest.mark.parametrize("after", [1, 7, 60])
async def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path, after: int) -> None:
    path = tmp_path / "s.db"
    with writer(path) as process:
        assert process.stdout is not None
        for _ in range(after):
            assert process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split(b"\n")[:-1]
        acknowledged = int(rest[-1]) if rest else after
    async with opened(path) as (store, book):
        assert book is not None
        assert book["number"] >= acknowledged
        kept = await store.recent(limit=1_000_000)
        assert [record.id for record in reversed(kept)] == [
            verdict(number).id for number in range(1, book["number"] + 1)
        ]
    assert not asides(path)


class Clock:
    def __init__(self) -> None:
        self.wall, self.mono = 1_000_000.0, 0.0

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.mono += seconds

    def options(self) -> dict[str, Any]:
        return {"clock": lambda: self.wall, "monotonic": lambda: self.mono}

    def record(self, number: int) -> Evidence:
        return verdict(number, at=self.wall)


async def test_records_go_by_count_oldest_first(tmp_path: Path) -> None:
    async with opened(tmp_path / "s.db", max_records=3) as (store, _):
        for number in range(10):
            await store.save(None, [verdict(number)])
        assert await store.recent() == [verdict(9), verdict(8), verdict(7)]


async def test_records_go_by_age(tmp_path: Path) -> None:
    clock = Clock()
    async with opened(tmp_path / "s.db", retention=DAY, **clock.options()) as (store, _):
        old = clock.record(1)
        await store.save(None, [old])
        clock.passes(0.9 * DAY)
        young = clock.record(2)
        await store.save(None, [young])
        assert await store.recent() == [young, old]
        clock.passes(0.2 * DAY)
        await store.save(None, [])
        assert await store.recent() == [young]
        clock.passes(2 * DAY)
        await store.save(None, [])
        assert await store.recent() == []


@pytest.mark.parametrize("jump", [400 * DAY, -400 * DAY])
async def test_a_clock_that_jumps_costs_no_evidence(tmp_path: Path, jump: float) -> None:
    clock = Clock()
    async with opened(tmp_path / "s.db", retention=DAY, **clock.options()) as (store, _):
        before = clock.record(1)
        await store.save(None, [before])
        clock.passes(1000)
        clock.wall += jump
        during = clock.record(2)
        await store.save(None, [during])
        clock.passes(100)
        clock.wall -= jump
        after = clock.record(3)
        await store.save(None, [after])
        for _ in range(5):
            clock.passes(700)
            await store.save(None, [])
        assert await store.recent() == [after, during, before]


async def test_memory_forgets_by_count_and_hands_out_copies() -> None:
    store, book = MemoryStore(max_records=2), {"version": 1, "x": [1]}
    await store.save(book, [verdict(1), verdict(2), verdict(3)])
    book["x"] = 7
    found = await store.open()
    assert found == {"version": 1, "x": [1]}
    assert await store.recent() == [verdict(3), verdict(2)]
    assert await store.recent("b") == []
    assert await store.recent(limit=1) == [verdict(3)]
