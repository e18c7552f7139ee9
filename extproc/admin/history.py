"""How the rate of corrupt answers went, unit by unit: a ring in memory, for the status page.

Pure: time comes with each sample. What is kept is fed by totals that are read once a second, so
the path of a response knows nothing of it. It begins anew with the process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

WIDTH = 60.0
"""Seconds of one point."""

LENGTH = 60
"""Points that are kept: an hour."""

Key = tuple[str, str, str]
"""(unit, release, class)"""


class Totals(NamedTuple):
    """Answers since the beginning: those that were judged, and the corrupt among them."""

    judged: int
    corrupt: int


class Point(NamedTuple):
    """Answers of one unit in one ``WIDTH``."""

    judged: int = 0
    corrupt: int = 0

    @property
    def rate(self) -> float | None:
        """The share of corrupt answers, None where nothing was judged."""
        return self.corrupt / self.judged if self.judged else None


class History:
    """Points of all units that the last sample named."""

    def __init__(self) -> None:
        self._totals: dict[Key, Totals] | None = None
        self._slot = 0
        self._points: dict[str, deque[Point]] = {}

    def sample(self, at: float, totals: Mapping[Key, Totals]) -> None:
        """Takes the totals of time ``at``, in seconds of a clock that does not jump back.

        The first sample only says where to count from: what was restored from a store happened at
        some other time.
        """
        before, self._totals = self._totals, dict(totals)
        self._turn(int(at // WIDTH))
        units = {unit for unit, _, _ in totals}
        self._points = {
            unit: self._points.get(unit) or deque([Point()], LENGTH) for unit in sorted(units)
        }
        if before is None:
            return
        for key, now in totals.items():
            was = before.get(key, Totals(0, 0))
            points = self._points[key[0]]
            judged, corrupt = now.judged - was.judged, now.corrupt - was.corrupt
            if judged > 0 or corrupt > 0:
                last = points[-1]
                points[-1] = Point(last.judged + max(0, judged), last.corrupt + max(0, corrupt))

    def points(self, unit: str) -> list[Point]:
        """The last ``LENGTH`` points, oldest first; empty ones where there is nothing yet."""
        known = self._points.get(unit, ())
        return [Point()] * (LENGTH - len(known)) + list(known)

    def _turn(self, slot: int) -> None:
        for _ in range(min(max(0, slot - self._slot), LENGTH)):
            for points in self._points.values():
                points.append(Point())
        self._slot = max(slot, self._slot)
