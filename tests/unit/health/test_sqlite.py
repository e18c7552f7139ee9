"""What the SQLite store acknowledged is there afterwards; what it cannot use it says, and keeps."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extproc.health.evidence import Evidence
from extproc.health.stores import Book, StoreError
from extproc.health.stores.memory import MemoryStore
from extproc.health.stores.sqlite import DAY, SqliteStore
from tests.unit.health.records import change, verdict

ROOT = Path(__file__).resolve().parents[3]


@asynccontextmanager
async def opened(path: Path, **options: Any) -> AsyncIterator[tuple[SqliteStore, Book | None]]:
    store = SqliteStore(path, **options)
    try:
        yield store, await store.open()
    finally:
        await store.close()


async def refusal(path: Path, **options: Any) -> str:
    store = SqliteStore(path, **{"busy": 0.2, **options})
    with pytest.raises(StoreError) as caught:
        await store.open()
    await store.close()
    return str(caught.value)


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def asides(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}.corrupt-*"))


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


WRITER = """
import asyncio, sys
from pathlib import Path
from extproc.health.stores.sqlite import SqliteStore
from tests.unit.health.records import verdict

async def main():
    store = SqliteStore(Path(sys.argv[1]))
    await store.open()
    for number in range(1, 1_000_000):
        await store.save({"version": 1, "number": number}, [verdict(number)])
        print(number, flush=True)

asyncio.run(main())
"""


@contextmanager
def writer(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


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


async def test_a_second_process_is_told_and_the_first_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with writer(path) as process:
        assert process.stdout is not None
        process.stdout.readline()
        message = await refusal(path)
        assert str(path) in message
        assert "another process has it open" in message
        assert "store.path" in message
        for _ in range(5):
            assert process.stdout.readline()


async def test_a_file_is_free_once_its_process_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with opened(path) as (store, _):
        await store.save({"version": 1}, [])
        assert "another process" in await refusal(path)  # also from within one process
    async with opened(path) as (_, book):
        assert book == {"version": 1}


@pytest.mark.parametrize(
    "content",
    [
        b"this is no database, by any means",
        b"SQLite format 3\x00",
        os.urandom(8192),
        b"SQLite format 3\x00" + bytes(4080),
    ],
    ids=["text", "cut off", "random", "zeros"],
)
async def test_a_corrupt_file_is_moved_aside_whole_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(content)
    async with opened(path) as (store, book):
        assert book is None
        await store.save({"version": 1}, [verdict(1)])
    (aside,) = asides(path)
    assert aside.read_bytes() == content
    assert [r.levelname for r in caplog.records] == ["ERROR"]
    assert str(aside) in caplog.text


@pytest.mark.parametrize("where", ["page", "middle", "end"])
async def test_a_damaged_store_is_moved_aside(tmp_path: Path, where: str) -> None:
    path = tmp_path / "s.db"
    async with opened(path) as (store, _):
        await store.save({"version": 1}, [verdict(number) for number in range(300)])
    content = bytearray(path.read_bytes())
    at = {"page": 100, "middle": len(content) // 2, "end": len(content) - 4096}[where]
    content[at : at + 4096] = b"\xff" * len(content[at : at + 4096])
    path.write_bytes(content)
    async with opened(path) as (store, book):
        assert book is None
        await store.save({"version": 2}, [verdict(1)])
        assert await store.recent() == [verdict(1)]
    assert asides(path)[0].read_bytes() == content


async def test_two_corrupt_files_of_one_second_are_both_kept(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    for number in range(3):
        path.write_bytes(b"garbage %d" % number)
        async with opened(path):
            pass
    assert {aside.read_bytes() for aside in asides(path)} == {b"garbage %d" % n for n in range(3)}


@pytest.mark.parametrize("book", ["{", "[]", "1"])
async def test_a_book_that_is_none_makes_the_file_corrupt(tmp_path: Path, book: str) -> None:
    path = tmp_path / "s.db"
    async with opened(path) as (store, _):
        await store.save({"version": 1}, [])
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE book SET content = ?", (book,))
    connection.close()
    async with opened(path) as (_, found):
        assert found is None
    assert len(asides(path)) == 1


async def test_a_row_of_somebody_else_s_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with opened(path) as (store, _):
        await store.save(None, [verdict(1)])
    with sqlite3.connect(path) as connection:
        rows = [("x", 1.0, "a", "{}"), ("y", 1.0, "a", "garbage"), ("z", 1.0, "a", "7")]
        connection.executemany(
            "INSERT INTO evidence (id, at, unit, content) VALUES (?, ?, ?, ?)", rows
        )
    connection.close()
    async with opened(path) as (store, _):
        assert await store.recent() == [verdict(1)]
        assert await store.evidence("x") is None


async def test_a_file_of_a_newer_version_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with opened(path) as (store, _):
        await store.save({"version": 1}, [verdict(1)])
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 9")
    connection.close()
    before = path.read_bytes()
    message = await refusal(path)
    assert "newer semantic-extproc" in message
    assert "store version 9" in message
    assert path.read_bytes() == before
    assert files(tmp_path) == [path]


@pytest.mark.parametrize("application", [0, 77])
async def test_a_database_of_another_program_is_not_touched(
    tmp_path: Path, application: int
) -> None:
    path = tmp_path / "s.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.execute(f"PRAGMA application_id = {application}")
    connection.close()
    before = path.read_bytes()
    assert "another program" in await refusal(path)
    assert path.read_bytes() == before


async def test_a_missing_folder_and_a_folder_are_told(tmp_path: Path) -> None:
    message = await refusal(tmp_path / "none" / "s.db")
    assert f"no folder {tmp_path / 'none'}" in message
    assert "store.path" in message
    assert "is a folder" in await refusal(tmp_path)


@contextmanager
def powerless() -> Iterator[Path]:
    """A folder that the process may read and not write, also when the tests run as root."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    root = os.geteuid() == 0
    try:
        if root:
            folder.chmod(0o755)
        yield folder
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)
        shutil.rmtree(folder)


def drop(folder: Path) -> None:
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)
    if os.geteuid() == 0:
        os.seteuid(65534)


async def test_a_folder_that_may_not_be_written_is_told_with_the_remedy() -> None:
    with powerless() as folder:
        drop(folder)
        message = await refusal(folder / "s.db")
        assert "Permission denied" in message
        assert "let the user that runs the sidecar write" in message


async def test_a_file_that_may_not_be_written_is_told_with_the_remedy() -> None:
    with powerless() as folder:
        async with opened(folder / "s.db") as (store, _):
            await store.save({"version": 1}, [])
        drop(folder)
        assert "let the user that runs the sidecar write" in await refusal(folder / "s.db")


async def test_a_full_disk_fails_the_save_and_space_brings_it_back(tmp_path: Path) -> None:
    async with opened(tmp_path / "s.db") as (store, _):
        await store.save({"version": 1}, [verdict(1)])
        connection = store._connection
        assert connection is not None
        pages = await store._run(
            lambda: connection.execute("PRAGMA max_page_count = 1").fetchone()[0]
        )
        assert pages > 1  # it cannot be less than the file has
        many = [verdict(number) for number in range(2, 400)]
        with pytest.raises(StoreError, match="free space on the disk"):
            await store.save({"version": 2}, many)
        # The next save opens the file anew, without the limit.
        await store.save({"version": 3}, many)
        assert len(await store.recent(limit=999)) == 399
    async with opened(tmp_path / "s.db") as (_, book):
        assert book == {"version": 3}


async def test_a_removed_file_is_noticed_and_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with opened(path) as (store, _):
        await store.save({"version": 1}, [verdict(1)])
        for file in files(tmp_path):
            file.unlink()
        with pytest.raises(StoreError, match="moved or removed"):
            await store.save(None, [verdict(2)])
        await store.save({"version": 1}, [verdict(2)])
    async with opened(path) as (store, book):
        assert book == {"version": 1}
        assert await store.recent() == [verdict(2)]


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
