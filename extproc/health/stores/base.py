"""What a store keeps, and what may go wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from extproc.health.evidence import Evidence

Book = dict[str, Any]
"""``Ledger.snapshot()``: JSON values only, with a ``version``."""


class StoreError(Exception):
    """A store that cannot be used: what is wrong, where, and what to do about it."""


class Store(Protocol):
    """Keeps the book and the records over restarts. Never awaited on the message path."""

    async def open(self) -> Book | None:
        """The book as last saved, None when there is none. Raises StoreError."""

    async def save(self, book: Book | None, records: Sequence[Evidence]) -> None:
        """Keeps both, durably, before it returns; all of it or nothing. Raises StoreError."""

    async def evidence(self, id: str) -> Evidence | None:
        """One record."""

    async def recent(self, unit: str = "", limit: int = 50) -> list[Evidence]:
        """The latest records, newest first, of one unit or of all."""

    async def close(self) -> None:
        """Ends it; what was saved stays."""
