"""Who asked: one user's odd prompt must not condemn a unit.

A source is a hash; "" stands for "not known" and is never damped. What a source says against a
unit counts fully the first time. After that it counts by the source's share of the unit's traffic
against its share of the charges: if the unit is at fault, it fails everybody alike; a source that
brings most of the charges and little of the traffic is the likelier cause. A source whose request
two units answered badly is no witness for a while.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

MAX_SOURCES = 4096
FADE_AT = 2000
"""Answers of a unit after which all counts are halved."""

SUSPENDED = 200
"""Answers of the unit during which a source that failed on two units is not heard."""


@dataclass(slots=True)
class _Source:
    answers: float = 0.0
    charges: float = 0.0
    silent_until: int = -1


class Sources:
    """The sources of one unit's traffic."""

    def __init__(self) -> None:
        self._sources: OrderedDict[str, _Source] = OrderedDict()
        self._answers = 0.0
        self._charges = 0.0
        self._seen = 0

    def answered(self, source: str) -> None:
        """Counts one answer to ``source``."""
        if not source:
            return
        self._seen += 1
        self._answers += 1
        self._entry(source).answers += 1
        if self._answers >= FADE_AT:
            self._answers /= 2
            self._charges /= 2
            for entry in self._sources.values():
                entry.answers /= 2
                entry.charges /= 2

    def charge(self, source: str, paired: bool) -> float:
        """The weight, 0 to 1, of a corrupt answer to ``source``. ``paired``: another unit answered
        the same request well, so the request is not to blame."""
        if not source:
            return 1.0
        entry = self._entry(source)
        if self._seen <= entry.silent_until:
            return 0.0
        weight = 1.0
        if entry.charges and not paired:
            # Nobody else's charges: the source's share of them is 1.
            of_traffic = min(1.0, entry.answers / max(self._answers, 1.0))
            of_charges = entry.charges / self._charges
            weight = min(1.0, of_traffic / of_charges)
        entry.charges += 1
        self._charges += 1
        return weight

    def failed_twice(self, source: str) -> None:
        """A request of ``source`` was answered badly by two units."""
        if source:
            self._entry(source).silent_until = self._seen + SUSPENDED

    def _entry(self, source: str) -> _Source:
        entry = self._sources.get(source)
        if entry is None:
            entry = self._sources[source] = _Source()
            if len(self._sources) > MAX_SOURCES:
                _, gone = self._sources.popitem(last=False)
                self._answers -= gone.answers
                self._charges -= gone.charges
        else:
            self._sources.move_to_end(source)
        return entry
