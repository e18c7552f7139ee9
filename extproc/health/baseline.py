"""What rate of corrupt or suspect answers is no news: learnt from answers that settled.

A rate is learnt with a lag. Answers wait in ``recent`` until there are LAG of them, and count
only then, and only if the unit was well all the time: a fault must show before it is learnt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

from extproc.detect import Kind

LAG = 200
"""Answers; a fault in 5 % of them alarms in a third of that."""

MEMORY = 20_000
"""Settled answers after which old ones begin to fade."""

CONFIDENCE = 0.95


@lru_cache(maxsize=4096)
def upper_bound(hits: int, total: int) -> float:
    """The exact one-sided upper confidence bound of a rate (Clopper and Pearson), rounded up to
    two digits so that equal rates share their tables. 1.0 without any answer."""
    if total <= 0 or hits >= total:
        return 1.0
    low, high = hits / total, 1.0
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        if _at_most(hits, total, middle) > 1 - CONFIDENCE:
            low = middle
        else:
            high = middle
    scale: float = 10.0 ** (math.floor(math.log10(high)) - 1)
    return math.ceil(high / scale) * scale


def _at_most(hits: int, total: int, rate: float) -> float:
    """Probability of at most ``hits`` in ``total`` at ``rate``, summed in logarithms."""
    log_rate, log_rest = math.log(rate), math.log1p(-rate)
    terms = [
        math.lgamma(total + 1)
        - math.lgamma(k + 1)
        - math.lgamma(total - k + 1)
        + k * log_rate
        + (total - k) * log_rest
        for k in range(hits + 1)
    ]
    top = max(terms)
    return math.exp(top) * sum(math.exp(term - top) for term in terms)


@dataclass(slots=True)
class Tally:
    """Counts of judged answers."""

    total: int = 0
    corrupt: int = 0
    suspect: int = 0

    def add(self, kind: Kind) -> None:
        """Counts one answer."""
        self.total += 1
        self.corrupt += kind is Kind.CORRUPT
        self.suspect += kind is Kind.SUSPECT


@dataclass(slots=True)
class Baseline:
    """The settled rate of one unit in one context class."""

    settled: Tally = field(default_factory=Tally)
    recent: Tally = field(default_factory=Tally)

    def add(self, kind: Kind, well: bool) -> None:
        """Takes one answer to a first attempt; retries are no fair sample of the traffic.
        ``well``: its unit is in ``pass`` or was not yet judged otherwise."""
        if not well:
            self.recent = Tally()
            return
        self.recent.add(kind)
        if self.recent.total < LAG:
            return
        settled, recent = self.settled, self.recent
        if settled.total >= MEMORY:
            settled = Tally(settled.total // 2, settled.corrupt // 2, settled.suspect // 2)
        self.settled = Tally(
            settled.total + recent.total,
            settled.corrupt + recent.corrupt,
            settled.suspect + recent.suspect,
        )
        self.recent = Tally()

    def corrupt_rate(self, prior: float) -> float:
        """Upper bound of the corrupt rate, given one that is assumed while little is known."""
        return upper_bound(self.settled.corrupt, self.settled.total + _worth(prior))

    def suspect_rate(self) -> float:
        """Upper bound of the suspect rate."""
        return upper_bound(self.settled.suspect, self.settled.total)


def _worth(prior: float) -> int:
    """How many clean answers have ``prior`` as their upper bound (the rule of three)."""
    return round(-math.log(1 - CONFIDENCE) / prior)
