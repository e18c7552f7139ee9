"""A sequential test that may be read after every response.

The e-value of one response is its likelihood ratio against the baseline rate ``p0``, for each of
several alternative rates; each alternative runs its own product, restarted whenever it falls below
1, and E is their mean. While the unit is at its baseline rate, alarms at E >= 1/alpha come at
least 1/alpha responses apart on average (Shin, Ramdas and Rinaldo, "E-detectors: a nonparametric
framework for sequential change detection"). ``p0`` may change from one response to the next, as
long as it is chosen before that response is seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

ALTERNATIVES = (0.01, 0.05, 0.2, 0.5, 0.999)
"""Corrupt rates that a fault may have, equally weighted: from a rare one to every answer."""

_MULTIPLES = (2.0, 4.0, 8.0, 16.0, 32.0)


class Steps(NamedTuple):
    """What one response adds to the logarithm of each product."""

    hit: tuple[float, ...]
    miss: tuple[float, ...]


@lru_cache(maxsize=1024)
def steps_to_rates(p0: float) -> Steps:
    """Steps of a test for ALTERNATIVES; one that is no worse than ``p0`` stays at 1."""
    return _steps(p0, ALTERNATIVES)


@lru_cache(maxsize=1024)
def steps_to_multiples(p0: float) -> Steps:
    """Steps of a test for multiples of ``p0``, for rates that have no natural scale."""
    return _steps(p0, tuple(min(0.99, p0 * factor) for factor in _MULTIPLES))


def _steps(p0: float, rates: tuple[float, ...]) -> Steps:
    return Steps(
        tuple(math.log(p1 / p0) if p1 > p0 else 0.0 for p1 in rates),
        tuple(math.log((1 - p1) / (1 - p0)) if p1 > p0 else 0.0 for p1 in rates),
    )


class EDetector:
    """E of one test. The logarithms are all its state."""

    __slots__ = ("logs",)

    def __init__(self, logs: Sequence[float] = (0.0,) * len(ALTERNATIVES)) -> None:
        self.logs = list(logs)

    def update(self, hit: bool, steps: Steps, weight: float = 1.0) -> None:
        """Takes one response. A ``weight`` below 1 makes a hit say less; 0 makes it say nothing."""
        moves = steps.hit if hit else steps.miss
        # Restarted at 1: evidence from before the fault cannot delay the alarm.
        self.logs = [
            max(log, 0.0) + weight * move for log, move in zip(self.logs, moves, strict=True)
        ]

    @property
    def value(self) -> float:
        """E. Growth is cut far above every threshold, so that it never overflows."""
        return sum(math.exp(min(log, 690.0)) for log in self.logs) / len(self.logs)

    @property
    def quiet(self) -> bool:
        """Whether no product holds any evidence."""
        return max(self.logs) <= 0.0

    def reset(self) -> None:
        """Forgets all evidence."""
        self.logs = [0.0] * len(self.logs)
