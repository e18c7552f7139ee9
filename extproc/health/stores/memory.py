"""A store that ends with the process: for tests, and where nothing may be written."""

from __future__ import annotations

import copy
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from extproc.health.evidence import Evidence
from extproc.health.stores.base import Book


class MemoryStore:
    """Keeps the book and the latest ``max_records`` records, samples for their time only."""

    def __init__(self, max_records: int = 10_000, clock: Callable[[], float] = time.time) -> None:
        self._max_records = max_records
        self._clock = clock
        self._book: Book | None = None
        self._records: OrderedDict[str, Evidence] = OrderedDict()

    async def open(self) -> Book | None:
        """The book of an earlier ``save`` to this very object."""
        return copy.deepcopy(self._book)

    async def save(self, book: Book | None, records: Sequence[Evidence]) -> None:
        """Keeps both for the life of the process."""
        if book is not None:
            self._book = copy.deepcopy(book)
        for record in records:
            self._records.setdefault(record.id, record)
        while len(self._records) > self._max_records:
            self._records.popitem(last=False)
        self._forget()

    async def evidence(self, id: str) -> Evidence | None:
        """One record."""
        self._forget()
        return self._records.get(id)

    async def recent(self, unit: str = "", limit: int = 50) -> list[Evidence]:
        """The latest records, newest first, of one unit or of all."""
        self._forget()
        found: list[Evidence] = []
        for record in reversed(self._records.values()):
            if len(found) >= limit:
                break
            if unit in ("", record.unit):
                found.append(record)
        return found

    def _forget(self) -> None:
        now = self._clock()
        for record in list(self._records.values()):
            if record.sample and (kept := record.kept_at(now)) is not record:
                self._records[record.id] = kept

    async def close(self) -> None:
        """Nothing to end."""
