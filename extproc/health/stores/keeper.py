"""Between the ledger, which never waits, and a store, which may: who saves what, and when.

Rules:
- ``evidence`` returns at once, whatever the store does.
- A record is saved within ``batch`` seconds; one of a change together with the book, so
  that both are there after a crash or neither is.
- The book is handed to the store each ``tick``, and at the end.
- A store that fails is logged once, retried with backoff, and loses nothing but the records that
  no longer fit the queue, which are counted.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from extproc.health.evidence import Evidence, Subject
from extproc.health.stores.base import Book, Store, StoreError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeeperSettings:
    """Times in seconds. ``capacity``: records that wait at most. ``at_once``: most of one save."""

    batch: float = 0.03
    tick: float = 1.0
    capacity: int = 10_000
    at_once: int = 1_000
    backoff: float = 1.0
    longest_backoff: float = 30.0


class Watcher(Protocol):
    """Who counts."""

    def record_dropped(self) -> None:
        """A record did not fit the queue."""

    def store_saved(self, ok: bool) -> None:
        """The store took what it was given, or failed."""


class Keeper:
    """Saves to ``store``, which is open, what ``snapshot`` says and the records that come in."""

    def __init__(
        self,
        store: Store,
        snapshot: Callable[[], Book],
        watcher: Watcher,
        settings: KeeperSettings = KeeperSettings(),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._store = store
        self._snapshot = snapshot
        self._watcher = watcher
        self._settings = settings
        self._queue: deque[Evidence] = deque()
        self._urgent = False
        self._wake = asyncio.Event()
        self._saving = asyncio.Lock()
        self._book_saved = float("-inf")
        self._trouble = ""
        self._dropped = 0

    @property
    def trouble(self) -> str:
        """Why the store fails, "" while it works."""
        return self._trouble

    def evidence(self, record: Evidence) -> None:
        """Takes a record. When the queue is full it is dropped, and counted."""
        if len(self._queue) >= self._settings.capacity:
            self._dropped += 1
            self._watcher.record_dropped()
            return
        self._queue.append(record)
        if record.subject is not Subject.VERDICT:
            self._urgent = True
        self._wake.set()

    async def run(self) -> None:
        """Saves until it is cancelled."""
        settings = self._settings
        wait = settings.backoff
        while True:
            with suppress(TimeoutError):
                # Not wait_for: before Python 3.12 it can swallow a cancellation.
                async with asyncio.timeout(settings.tick):
                    await self._wake.wait()
                await asyncio.sleep(settings.batch)
            if await self._save():
                wait = settings.backoff
            else:
                await asyncio.sleep(wait)
                wait = min(2 * wait, settings.longest_backoff)

    async def flush(self, within: float = 5.0) -> bool:
        """Saves all there is now. True once it is durable; False when the store fails, or is not
        done within so many seconds."""
        self._urgent = True
        saving = asyncio.ensure_future(self._all())
        try:
            async with asyncio.timeout(within):
                return await asyncio.shield(saving)
        except TimeoutError:
            return False  # it goes on by itself

    async def close(self, within: float = 5.0) -> None:
        """A last save, then the end of the store. Never raises, never hangs."""
        if not await self.flush(within):
            log.error(
                "the last state and %d records could not be saved: %s",
                len(self._queue),
                self._trouble or f"the store took more than {within:g} s",
            )
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(within):
                await self._store.close()

    async def find(self, id: str) -> Evidence | None:
        """One record, also one that still waits to be saved. Raises StoreError."""
        self._forget()
        for record in self._queue:
            if record.id == id:
                return record
        return await self._store.evidence(id)

    async def recent(self, unit: str = "", limit: int = 50) -> list[Evidence]:
        """The latest records, newest first, of one unit or of all. Raises StoreError."""
        self._forget()
        waiting = (record for record in reversed(self._queue) if unit in ("", record.unit))
        found = {record.id: record for record in islice(waiting, limit)}
        if len(found) < limit:
            for record in await self._store.recent(unit, limit):
                found.setdefault(record.id, record)
        return list(found.values())[:limit]

    async def _all(self) -> bool:
        for _ in range(self._settings.capacity // self._settings.at_once + 1):
            if not await self._save():
                return False
            if not self._queue:
                break
        return True

    async def _save(self) -> bool:
        """One call to the store, if there is anything to save. False when it failed."""
        async with self._saving:
            self._forget()
            now = asyncio.get_running_loop().time()
            with_book = self._urgent or now - self._book_saved >= self._settings.tick
            records = tuple(islice(self._queue, self._settings.at_once))
            if not (with_book or records):
                return True
            self._wake.clear()
            # Before the snapshot: what changes while the store writes is saved by the next call.
            if with_book:
                self._urgent = False
            try:
                await self._store.save(self._snapshot() if with_book else None, records)
            except StoreError as error:
                self._failed(str(error))
                return False
            except Exception as error:
                log.exception("the store failed in a way of its own")
                self._failed(type(error).__name__)
                return False
            if with_book:
                self._book_saved = now
            for _ in records:
                self._queue.popleft()
            if self._queue:
                self._wake.set()
            self._works()
            return True

    def _forget(self) -> None:
        """A sample does not outlive its time in the queue of a store that fails."""
        now = self._clock()
        if any(record.sample and record.sample_until <= now for record in self._queue):
            self._queue = deque(record.kept_at(now) for record in self._queue)

    def _failed(self, reason: str) -> None:
        self._watcher.store_saved(False)
        # Whole with the next save: the store may have to begin anew.
        self._urgent = True
        if not self._trouble:
            log.error(
                "the store fails: %s. States are kept in memory and saved once it works", reason
            )
        self._trouble = reason

    def _works(self) -> None:
        self._watcher.store_saved(True)
        if self._trouble:
            log.warning("the store works again; %d records were dropped meanwhile", self._dropped)
        self._trouble = ""
        self._dropped = 0
