"""Exact tests for two rates, and how many responses they need.

One-sided throughout: the question is whether the candidate is worse. All are exact and
conditional, hence never more often wrong than they say, however small the counts:

- two samples: Fisher's exact test (hypergeometric tail; Fisher 1935);
- paired by request: McNemar's exact test, the binomial tail over discordant pairs (McNemar 1947);
- one sample against a limit: the binomial tail (Clopper & Pearson 1934).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import NormalDist

POWER = 0.8
"""How often a difference as large as the threshold is to be found; the convention in planning."""


def fisher_worse(bad_candidate: int, candidate: int, bad_baseline: int, baseline: int) -> float:
    """The p-value of "the candidate's rate of bad responses is no higher".

    Bad responses and all responses of both. Raises ValueError for counts that cannot be.
    """
    _check(bad_candidate, candidate)
    _check(bad_baseline, baseline)
    bad, total = bad_candidate + bad_baseline, candidate + baseline
    # log of P(X = k): k of the candidate's responses bad, given all the margins.
    margins = _log_choose(total, bad)
    most = min(bad, candidate)
    return _summed(
        _log_choose(candidate, k) + _log_choose(baseline, bad - k) - margins
        for k in range(bad_candidate, most + 1)
        if bad - k <= baseline
    )


def mcnemar_worse(only_candidate_bad: int, only_baseline_bad: int) -> float:
    """The p-value of "the candidate is no worse", from pairs that came out differently."""
    discordant = only_candidate_bad + only_baseline_bad
    return binomial_tail(only_candidate_bad, discordant, 0.5)


def binomial_tail(successes: int, trials: int, rate: float) -> float:
    """P(X >= successes) of ``trials`` at ``rate``."""
    _check(successes, trials)
    if successes == 0:
        return 1.0
    if rate <= 0:
        return 0.0
    if rate >= 1:
        return 1.0
    yes, no = math.log(rate), math.log1p(-rate)
    if successes > trials * rate:
        return _summed(
            _log_choose(trials, k) + k * yes + (trials - k) * no
            for k in range(successes, trials + 1)
        )
    below = _summed(_log_choose(trials, k) + k * yes + (trials - k) * no for k in range(successes))
    return max(0.0, 1.0 - below)


def needed_to_exclude(rate: float, significance: float, bad: int = 0) -> int:
    """Responses from which ``bad`` bad ones show the true rate to be below ``rate``.

    The least n with P(X <= bad) <= significance at ``rate``; without bad ones the "rule of three",
    exactly: log(significance) / log(1 - rate). 0 when no rate is excluded by any number.
    """
    if rate <= 0:
        return 0
    if rate >= 1:
        return bad + 1
    low, high = bad + 1, bad + 1
    while 1.0 - binomial_tail(bad + 1, high, rate) > significance:
        low, high = high, high * 2
    while low < high:
        middle = (low + high) // 2
        if 1.0 - binomial_tail(bad + 1, middle, rate) <= significance:
            high = middle
        else:
            low = middle + 1
    return low


def needed_to_compare(rate: float, drop: float, significance: float, power: float = POWER) -> int:
    """Responses of each side from which a rise of the bad rate by ``drop`` over ``rate`` would be
    found, with probability ``power``.

    Normal approximation with the correction of Casagrande, Pike & Smith (1978) for Fisher's test,
    as textbooks plan (Fleiss, Levin & Paik, Statistical Methods for Rates and Proportions, 4.14).
    """
    if drop <= 0:
        return 0
    rate = min(rate, 1.0 - drop)  # from where such a rise is still possible
    worse = rate + drop
    mean = (rate + worse) / 2
    z_alpha = NormalDist().inv_cdf(1 - significance)
    z_power = NormalDist().inv_cdf(power)
    spread = z_alpha * math.sqrt(2 * mean * (1 - mean)) + z_power * math.sqrt(
        rate * (1 - rate) + worse * (1 - worse)
    )
    plain = (spread / drop) ** 2
    return math.ceil(plain / 4 * (1 + math.sqrt(1 + 4 / (plain * drop))) ** 2)


def needed_pairs(discordant: float, drop: float, significance: float, power: float = POWER) -> int:
    """Pairs from which McNemar's test would find a drop of ``drop``, when a share ``discordant``
    of pairs comes out differently on the two sides (Connor, Biometrics 43, 1987)."""
    if drop <= 0:
        return 0
    share = max(discordant, drop)
    z_alpha = NormalDist().inv_cdf(1 - significance)
    z_power = NormalDist().inv_cdf(power)
    spread = z_alpha * math.sqrt(share) + z_power * math.sqrt(max(0.0, share - drop**2))
    # The exact test cannot reject with fewer discordant pairs than this, all on one side.
    fewest = math.log(significance) / math.log(0.5) / share
    return math.ceil(max((spread / drop) ** 2, fewest))


def _check(part: int, whole: int) -> None:
    if not 0 <= part <= whole:
        raise ValueError(f"{part} of {whole} cannot be")


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _summed(logarithms: Iterable[float]) -> float:
    """The sum of probabilities given by their logarithms, at most 1."""
    return min(1.0, math.fsum(math.exp(value) for value in logarithms))
