"""What the SQLite store cannot use it says, and keeps."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from extproc.health.stores import StoreError
from tests.unit.health.records import verdict
from tests.unit.health.sqlite_files import asides, files, opened, refusal, writer


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
