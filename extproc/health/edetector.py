"""A sequential test that may be read after every response.

The e-value of one response is its likelihood ratio, a mixture over alternatives, against the
baseline rate ``p0``; E becomes max(E, 1) times it. While the unit is at its baseline rate, alarms
at E >= 1/alpha come at least 1/alpha responses apart on average (Shin, Ramdas and Rinaldo,
"E-detectors: a nonparametric framework for sequential change detection").
"""

from __future__ import annotations

import math
from dataclasses import dataclass

ALTERNATIVES = (0.01, 0.05, 0.2, 0.5, 0.999)
"""Corrupt rates that a fault may have, equally weighted: from a rare one to every answer."""


@dataclass(frozen=True, slots=True)
class DetectorSettings:
    """``p0``: the corrupt rate that is no news. ``observe_at``: the E that brings ``observe``.
    ``alpha``: the false-alarm rate per response that brings ``quarantine`` at E >= 1/alpha."""

    p0: float = 0.001
    observe_at: float = 20.0
    alpha: float = 1e-4


class EDetector:
    """E for one unit in one context class. Each alternative runs its own restarted product."""

    __slots__ = ("_clean", "_corrupt", "_logs", "settings")

    def __init__(self, settings: DetectorSettings) -> None:
        self.settings = settings
        p0 = settings.p0
        rates = [p1 for p1 in ALTERNATIVES if p1 > p0] or [ALTERNATIVES[-1]]
        self._corrupt = [math.log(p1 / p0) for p1 in rates]
        self._clean = [math.log((1 - p1) / (1 - p0)) for p1 in rates]
        self._logs = [0.0] * len(rates)

    def update(self, corrupt: bool) -> None:
        """Takes one response."""
        steps = self._corrupt if corrupt else self._clean
        # Restarted at 1: evidence from before the fault cannot delay the alarm.
        self._logs = [max(log, 0.0) + step for log, step in zip(self._logs, steps, strict=True)]

    @property
    def value(self) -> float:
        """E. Never overflows: growth is cut at 1e300."""
        top = min(max(self._logs), 690.0)
        return sum(math.exp(min(log, top)) for log in self._logs) / len(self._logs)

    def reset(self) -> None:
        """Forgets all evidence."""
        self._logs = [0.0] * len(self._logs)
