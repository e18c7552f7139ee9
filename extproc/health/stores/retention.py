"""When old records may go: only by a clock that has been steady."""

from __future__ import annotations

from collections.abc import Callable

PERIOD = 600.0
"""Seconds for which the clock must have gone evenly."""

TOLERANCE = 60.0
"""Seconds that the clock may be off from steady time within a period: more is a jump."""


class SteadyClock:
    """Compares the clock, which may be set, with a monotonic one.

    A clock that jumps a year ahead for a minute must not cost a year of evidence.
    """

    def __init__(self, clock: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._start = clock(), monotonic()

    def due(self) -> float | None:
        """Now in Unix time, once a steady period; None otherwise."""
        now, passed = self._clock(), self._monotonic()
        start, since = self._start
        if abs((now - start) - (passed - since)) > TOLERANCE:
            self._start = now, passed
            return None
        if passed - since < PERIOD:
            return None
        self._start = now, passed
        return now
