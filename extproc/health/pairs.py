"""The paired comparison: both attempts of one request carry its id.

A corrupt beginning is retried on another unit, so what that one answers tells whom to charge. The
charge waits for it, but not long: an attempt that does not come charges as well. Where no other
unit is left the same one is asked again, and nothing more is to be waited for. Of two attempts that
two workers read, the second may be told of first.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Generic, TypeVar

Waiting = TypeVar("Waiting")
Entry = TypeVar("Entry", bound=tuple[Any, ...])


class Pairs(Generic[Waiting]):
    """First attempts that wait for the second. ``seconds``: how long."""

    MAX_WAITING = 10_000

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._waiting: OrderedDict[str, tuple[float, str, Waiting]] = OrderedDict()
        self._early: OrderedDict[str, tuple[float, str]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, request_id: str, unit: str, what: Waiting, at: float) -> list[Waiting]:
        """``what`` waits for another unit's attempt. Returns those that had to make room."""
        self._waiting[request_id] = (at, unit, what)
        gone = []
        while len(self._waiting) > self.MAX_WAITING:
            gone.append(self._waiting.popitem(last=False)[1][2])
        return gone

    def meet(self, request_id: str, unit: str) -> Waiting | None:
        """The attempt on another unit that waits for this one, which ends its waiting."""
        found = self._waiting.get(request_id)
        if found is None or found[1] == unit:
            return None
        del self._waiting[request_id]
        return found[2]

    def came_early(self, request_id: str, unit: str, at: float) -> None:
        """A later attempt answered well, and no first one is known yet."""
        self._early[request_id] = (at, unit)
        if len(self._early) > self.MAX_WAITING:
            self._early.popitem(last=False)

    def answered_early(self, request_id: str, unit: str) -> bool:
        """Whether another unit's later attempt has answered well already."""
        found = self._early.get(request_id)
        if found is None or found[1] == unit:
            return False
        del self._early[request_id]
        return True

    def again(self, request_id: str, unit: str) -> Waiting | None:
        """The earlier attempt on the same unit, which then waits in vain."""
        found = self._waiting.get(request_id)
        if found is None or found[1] != unit:
            return None
        del self._waiting[request_id]
        return found[2]

    def overdue(self, at: float) -> list[Waiting]:
        """Those that waited long enough. A clock that jumped back ends all waiting; by less than
        ``seconds`` it did not: workers tell of answers as these end."""
        self._expired(self._early, at)
        return [what for _, _, what in self._expired(self._waiting, at)]

    def _expired(self, entries: OrderedDict[str, Entry], at: float) -> list[Entry]:
        # Entries begin with the time at which they came, and stand in that order.
        out: list[Entry] = []
        while entries:
            request_id, entry = next(iter(entries.items()))
            if abs(at - entry[0]) < self.seconds:
                break
            del entries[request_id]
            out.append(entry)
        return out
