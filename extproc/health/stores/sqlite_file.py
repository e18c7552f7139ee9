"""The file behind the SQLite store: whether it is ours, whole, and free. Blocking calls."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from pathlib import Path

from extproc.health.stores.base import Book, StoreError

VERSION = 1
"""``user_version`` of the files that this code writes. A greater one is not touched."""

APPLICATION = 0x53454D58
"""``application_id``: "SEMX"."""

WRITABLE = (
    "let the user that runs the sidecar write to the folder and the file, or name another place "
    "with store.path"
)

_MAGIC = b"SQLite format 3\x00"

_SCHEMA = """
CREATE TABLE book (one INTEGER PRIMARY KEY CHECK (one = 1), content TEXT NOT NULL);
CREATE TABLE evidence (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    at REAL NOT NULL,
    unit TEXT NOT NULL,
    content TEXT NOT NULL
);
CREATE INDEX evidence_unit ON evidence (unit, seq);
"""

_SAMPLES = """
CREATE TABLE IF NOT EXISTS samples (
    id TEXT PRIMARY KEY,
    at REAL NOT NULL,
    until REAL NOT NULL,
    content TEXT NOT NULL
);
"""


class Corrupt(Exception):
    """A file that cannot be read as what it claims to be."""


def check(path: Path) -> None:
    """Refuses, without opening it as a database, a file that is not for us. Raises StoreError."""
    if not path.parent.is_dir():
        raise StoreError(f"{path}: there is no folder {path.parent}; make it, or set store.path")
    if path.is_dir():
        raise StoreError(f"{path}: is a folder; store.path names a file")
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except FileNotFoundError:
        return
    if len(header) == 100 and header.startswith(_MAGIC):
        application = int.from_bytes(header[68:72], "big")
        if application:  # most programs leave it 0: then the tables tell
            _refuse(path, application, version=int.from_bytes(header[60:64], "big"))


def _refuse(path: Path, application: int, version: int) -> None:
    if application != APPLICATION:
        raise StoreError(
            f"{path}: is a database of another program; it was not touched. Set store.path"
        )
    if version > VERSION:
        raise StoreError(
            f"{path}: was written by a newer semantic-extproc (store version {version}, this one "
            f"knows {VERSION}); it was not touched. Run the newer one, or set store.path"
        )


def connect(path: Path, busy: float) -> tuple[sqlite3.Connection, Book | None]:
    """An open and locked file, checked or begun, and its book.

    Raises Corrupt, StoreError or sqlite3.Error; then nothing stays open.
    """
    # Made here, so that only its owner can read which requests went wrong.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, timeout=busy, isolation_level=None)
    try:
        _lock(connection, busy)
        _begin(connection, path)
        return connection, _read(connection)
    except sqlite3.DatabaseError as error:
        connection.close()
        if _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise Corrupt(str(error)) from error
        raise
    except BaseException:
        connection.close()
        raise


def _lock(connection: sqlite3.Connection, busy: float) -> None:
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA synchronous = FULL")
    deadline = time.monotonic() + busy
    while True:  # SQLite's own timeout does not cover the lock of a write-ahead log
        try:
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("COMMIT")
            return
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
        time.sleep(0.05)


def _begin(connection: sqlite3.Connection, path: Path) -> None:
    empty = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if empty and version == application == 0:
        # Before the log exists, so that the version stands in the file itself: see ``check``.
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.executescript(
            f"BEGIN;{_SCHEMA}PRAGMA application_id = {APPLICATION};"
            f"PRAGMA user_version = {VERSION};COMMIT;"
        )
    else:
        _refuse(path, application, version)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA journal_size_limit = 16777216")
    # What is deleted is overwritten: a sample is gone when it is forgotten.
    connection.execute("PRAGMA secure_delete = ON")


def _read(connection: sqlite3.Connection) -> Book | None:
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise Corrupt(found)
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if not {"book", "evidence"} <= tables:
        raise Corrupt("tables are missing")
    connection.execute(_SAMPLES)  # files of before have none
    row = connection.execute("SELECT content FROM book").fetchone()
    if row is None:
        return None
    try:
        book = json.loads(row[0])
    except (TypeError, ValueError):
        raise Corrupt("the book is no JSON") from None
    if not isinstance(book, dict):
        raise Corrupt("the book is no mapping")
    return book


def move_aside(path: Path, now: float) -> Path:
    """Renames a file, and what SQLite keeps beside it, to ``<name>.corrupt-<time>``."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    number, aside = 1, path.with_name(f"{path.name}.corrupt-{stamp}")
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.corrupt-{stamp}-{number}")
    for suffix in ("-wal", "-shm", "-journal"):
        beside = path.with_name(path.name + suffix)
        if beside.exists():
            beside.rename(aside.with_name(aside.name + suffix))
    path.rename(aside)
    return aside


def identity(path: Path) -> tuple[int, int]:
    """Which file stands at ``path``: device and inode, zeros for none."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def problem(path: Path, error: sqlite3.Error) -> str:
    """What is wrong, and what to do about it."""
    remedies = {
        sqlite3.SQLITE_BUSY: "another process has it open; give each sidecar a store.path of its "
        "own (several gateways share a view through fleet.url)",
        sqlite3.SQLITE_FULL: "free space on the disk",
        sqlite3.SQLITE_IOERR: "look after the disk",
        sqlite3.SQLITE_READONLY: WRITABLE,
        sqlite3.SQLITE_CANTOPEN: WRITABLE,
        sqlite3.SQLITE_PERM: WRITABLE,
    }
    remedy = remedies.get(_code(error))
    return f"{path}: {error}" + (f"; {remedy}" if remedy else "")
