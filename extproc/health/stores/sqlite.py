"""The default store: one SQLite file, owned by one process.

What ``save`` acknowledged survives kill -9 and loss of power: write-ahead log, synchronised at
every commit. The file is locked for as long as it is open: two books in one file would overwrite
each other, so a second sidecar is refused. Nothing of a file is ever deleted but records past
their retention: what cannot be read is moved aside under a name of its own.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from extproc.health.evidence import Evidence
from extproc.health.stores import sqlite_file as files
from extproc.health.stores.base import Book, StoreError
from extproc.health.stores.retention import SteadyClock

log = logging.getLogger(__name__)

T = TypeVar("T")
Row = tuple[str, float, str, str]

DAY = 86_400.0

FUTURE = 3600.0
"""Seconds by which a sample may be ahead of the clock before it is forgotten."""


class SqliteStore:
    """``retention`` in seconds; ``max_records`` bounds the records whatever their age.

    ``busy``: seconds that another process gets to let go of the file. All work on the file is done
    in one thread of its own, never on the event loop.
    """

    def __init__(
        self,
        path: Path,
        retention: float = 30 * DAY,
        max_records: int = 100_000,
        *,
        busy: float = 5.0,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self._retention = retention
        self._max_records = max_records
        self._busy = busy
        self._now = clock
        self._forgotten = clock()
        self._clock = SteadyClock(clock, monotonic)
        self._thread = ThreadPoolExecutor(1, "store")
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] = (0, 0)
        self._saved = ""
        self._samples_until = float("inf")  # when the next sample is to be forgotten

    async def open(self) -> Book | None:
        """The book as last saved, None for a new file. Raises StoreError.

        A corrupt file is moved aside, which is logged as an error, and a new one is begun. A file
        of a newer version, or of another program, is not touched.
        """
        return await self._run(lambda: self._open()[1])

    async def save(self, book: Book | None, records: Sequence[Evidence]) -> None:
        """Keeps both, in one transaction that is on the disk when this returns.

        A book that is as it was last time costs no writing. After a failure the next call opens
        the file anew, and needs the whole book.
        """
        # The book is read here: the ledger goes on changing while the thread writes.
        content = json.dumps(book, separators=(",", ":")) if book is not None else None
        await self._run(lambda: self._save(content, records))

    async def evidence(self, id: str) -> Evidence | None:
        """One record."""
        found = await self._select("WHERE evidence.id = ?", (id,))
        return found[0] if found else None

    async def recent(self, unit: str = "", limit: int = 50) -> list[Evidence]:
        """The latest records, newest first, of one unit or of all."""
        where, values = ("WHERE evidence.unit = ?", (unit,)) if unit else ("", ())
        return await self._select(f"{where} ORDER BY evidence.seq DESC LIMIT ?", (*values, limit))

    async def close(self) -> None:
        """Lets go of the file."""
        await self._run(self._close)
        self._thread.shutdown(wait=False)

    async def _run(self, work: Callable[[], T]) -> T:
        def guarded() -> T:
            try:
                return work()
            except sqlite3.Error as error:
                raise StoreError(files.problem(self.path, error)) from error
            except OSError as error:
                raise StoreError(f"{self.path}: {error.strerror}; {files.WRITABLE}") from error

        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, guarded)
        except RuntimeError as error:
            raise StoreError(f"{self.path}: the store is closed") from error

    def _open(self) -> tuple[sqlite3.Connection, Book | None]:
        self._close()
        files.check(self.path)
        try:
            connection, book = files.connect(self.path, self._busy)
        except files.Corrupt as corrupt:
            aside = files.move_aside(self.path, time.time())
            log.error(
                "the store %s is corrupt (%s): moved to %s, a new one is begun; states and "
                "evidence of before are there, not here",
                self.path,
                corrupt,
                aside,
            )
            connection, book = files.connect(self.path, self._busy)
        self._connection = connection
        self._file = files.identity(self.path)
        self._next_sample(connection)
        self._forget(connection)
        return connection, book

    def _save(self, book: str | None, records: Sequence[Evidence]) -> None:
        connection = self._usable() or self._open()[0]
        rows: list[Row] = [
            (r.id, r.at, r.unit, json.dumps(r.unquoted().as_dict(), separators=(",", ":")))
            for r in records
        ]
        samples = [(r.id, r.at, r.sample_until, r.sample) for r in records if r.sample]
        self._forget(connection)
        if book == self._saved:
            book = None
        due = self._clock.due()
        if book is None and not rows and due is None:
            return
        try:
            connection.execute("BEGIN IMMEDIATE")
            if book is not None:
                connection.execute("REPLACE INTO book (one, content) VALUES (1, ?)", (book,))
            # A save that failed after its commit is repeated: the records are there already.
            connection.executemany(
                "INSERT OR IGNORE INTO evidence (id, at, unit, content) VALUES (?, ?, ?, ?)", rows
            )
            connection.executemany(
                "INSERT OR IGNORE INTO samples (id, at, until, content) VALUES (?, ?, ?, ?)",
                samples,
            )
            gone = self._prune(connection, bool(rows), due)
            connection.execute("COMMIT")
            if gone:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self._next_sample(connection)
            self._saved = book or self._saved
        except BaseException:
            self._close()  # takes the transaction back
            raise

    def _usable(self) -> sqlite3.Connection | None:
        """The connection, None when there is none; raises StoreError once its file is gone."""
        if self._connection is not None and files.identity(self.path) != self._file:
            self._close()
            raise StoreError(f"{self.path}: was moved or removed; a new file is begun")
        return self._connection

    def _prune(self, connection: sqlite3.Connection, grown: bool, now: float | None) -> bool:
        """True when samples went with their records."""
        if grown:
            connection.execute(
                "DELETE FROM evidence WHERE seq <= (SELECT max(seq) FROM evidence) - ?",
                (self._max_records,),
            )
        if now is not None:
            # Up to the first record that is young enough: the order of arrival is certain, a
            # record's time is what the clock said.
            connection.execute(
                "DELETE FROM evidence WHERE seq < coalesce("
                "(SELECT seq FROM evidence WHERE at >= ? ORDER BY seq LIMIT 1),"
                "(SELECT max(seq) + 1 FROM evidence))",
                (now - self._retention,),
            )
        if self._samples_until == float("inf") or not (grown or now is not None):
            return False
        orphans = "DELETE FROM samples WHERE id NOT IN (SELECT id FROM evidence)"
        return connection.execute(orphans).rowcount > 0

    def _next_sample(self, connection: sqlite3.Connection) -> None:
        (first,) = connection.execute("SELECT min(until) FROM samples").fetchone()
        self._samples_until = float("inf") if first is None else first

    def _forget(self, connection: sqlite3.Connection) -> None:
        """Deletes samples whose time is over, also from the log that SQLite writes ahead. Unlike
        evidence they go by any clock: what is lost is a sample, what is kept is somebody's text."""
        now = self._now()
        if self._samples_until > now and now >= self._forgotten - FUTURE:
            return
        connection.execute(
            "DELETE FROM samples WHERE until <= ? OR at > ? OR id NOT IN (SELECT id FROM evidence)",
            (now, now + FUTURE),
        )
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self._forgotten = now
        self._next_sample(connection)

    async def _select(self, how: str, values: tuple[Any, ...]) -> list[Evidence]:
        def work() -> list[Evidence]:
            connection = self._usable()
            if connection is None:
                raise StoreError(f"{self.path}: the store is closed")
            rows = connection.execute(
                "SELECT evidence.content, samples.content, samples.until FROM evidence "
                f"LEFT JOIN samples ON samples.id = evidence.id {how}",
                values,
            ).fetchall()
            found = [_record(*row) for row in rows]
            return [record.kept_at(self._now()) for record in found if record is not None]

        return await self._run(work)

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        self._saved = ""
        if connection is not None:
            connection.close()


def _record(content: object, sample: object, until: object) -> Evidence | None:
    try:
        record = Evidence.from_dict(json.loads(content))  # type: ignore[arg-type]
        if sample is None:
            return record
        return replace(record, sample=str(sample), sample_until=float(until))  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError, AttributeError):
        return None  # a row that somebody else wrote
