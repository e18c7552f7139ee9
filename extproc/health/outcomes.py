"""Both answers to one request, where traffic is mirrored: a shadow carries the primary's id.

Counts how the two came out, for each two releases that met: the paired comparison of a canary. A
retry carries the id as well, but only because the first attempt was bad: such pairs are left out.

Pure: time comes with each response. Bounded: the oldest that waits makes room.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Any, NamedTuple

from extproc.detect import Kind
from extproc.health.report import Response

WAIT = 600.0
"""Seconds that an answer waits for the other: one of the two may stream for minutes."""

MAX_WAITING = 20_000

MAX_COMPARED = 64
"""Pairs of releases that are counted; more would be a mesh that invents names."""


class Side(NamedTuple):
    """Who answered."""

    unit: str
    release: str


class Outcomes:
    """How mirrored requests came out."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, tuple[float, Side, Kind]] = OrderedDict()
        self._counts: dict[tuple[Side, Side], Counter[tuple[Kind, Kind]]] = {}

    def __len__(self) -> int:
        """Answers that wait for the other."""
        return len(self._waiting)

    def take(self, response: Response) -> None:
        """Takes one judged response."""
        if (
            not response.request_id
            or response.kind is Kind.UNCHECKED
            or response.attempt > 1
            or (response.marked and not response.attempt)  # the next may be its retry
        ):
            return
        side = Side(response.unit, response.release)
        found = self._waiting.pop(response.request_id, None)
        if found is not None and found[1] != side and 0 <= response.at - found[0] < WAIT:
            self._count(found[1], found[2], side, response.kind)
            return
        self._waiting[response.request_id] = (response.at, side, response.kind)
        while self._waiting:
            oldest, (at, _, _) = next(iter(self._waiting.items()))
            if len(self._waiting) <= MAX_WAITING and 0 <= response.at - at < WAIT:
                break
            del self._waiting[oldest]

    def tables(self) -> Iterator[tuple[Side, Side, dict[tuple[Kind, Kind], int]]]:
        """Who was compared, in the order of their names, and how often each outcome came."""
        for (first, second), counts in sorted(self._counts.items()):
            yield first, second, dict(counts)

    def as_list(self) -> list[dict[str, Any]]:
        """The same as JSON values."""
        return [
            {
                "first": first._asdict(),
                "second": second._asdict(),
                "outcomes": [
                    {"first": one.value, "second": other.value, "count": count}
                    for (one, other), count in sorted(counts.items())
                ],
            }
            for first, second, counts in self.tables()
        ]

    def _count(self, one: Side, one_kind: Kind, other: Side, other_kind: Kind) -> None:
        if other < one:
            one, one_kind, other, other_kind = other, other_kind, one, one_kind
        counts = self._counts.get((one, other))
        if counts is None:
            if len(self._counts) >= MAX_COMPARED:
                return
            counts = self._counts[one, other] = Counter()
        counts[one_kind, other_kind] += 1
