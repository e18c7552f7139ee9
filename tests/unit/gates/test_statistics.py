"""The tests of gate 5, against known values and against counting with whole numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.gates.statistics import (
    binomial_tail,
    fisher_worse,
    mcnemar_worse,
    needed_pairs,
    needed_to_compare,
    needed_to_exclude,
)


@pytest.mark.parametrize(
    ("bad", "all_", "base_bad", "base_all", "p"),
    [
        (3, 4, 1, 4, 0.242857142857),  # the lady tasting tea (Fisher 1935): 17/70
        (8, 10, 1, 6, 0.0244755244755),  # scipy.stats.fisher_exact, alternative="greater"
        (20, 5000, 5, 5000, 0.00201655771503),  # the same
        (0, 100, 0, 100, 1.0),
        (100, 100, 0, 100, 1 / math.comb(200, 100)),
    ],
)
def test_fishers_test_gives_known_values(
    bad: int, all_: int, base_bad: int, base_all: int, p: float
) -> None:
    assert fisher_worse(bad, all_, base_bad, base_all) == pytest.approx(p, rel=1e-9)


@pytest.mark.parametrize(
    ("worse", "better", "p"),
    [(10, 1, 12 / 2**11), (5, 5, 638 / 2**10), (0, 0, 1.0), (7, 0, 1 / 2**7)],
)
def test_mcnemars_test_gives_known_values(worse: int, better: int, p: float) -> None:
    assert mcnemar_worse(worse, better) == pytest.approx(p, rel=1e-9)


counts = st.integers(0, 40)


@given(counts, counts, counts, counts)
def test_fishers_test_is_what_counting_gives(a: int, b: int, c: int, d: int) -> None:
    total = math.comb(a + b + c + d, a + c)
    exact = Fraction(
        sum(
            math.comb(a + b, k) * math.comb(c + d, a + c - k)
            for k in range(a, min(a + c, a + b) + 1)
        ),
        total,
    )
    assert fisher_worse(a, a + b, c, c + d) == pytest.approx(float(exact), rel=1e-9)


@given(counts, st.integers(0, 40), st.fractions(0, 1, max_denominator=50))
def test_the_binomial_tail_is_what_counting_gives(k: int, more: int, p: Fraction) -> None:
    n = k + more
    exact = sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))
    assert binomial_tail(k, n, float(p)) == pytest.approx(float(exact), rel=1e-7, abs=1e-12)


def test_counts_that_cannot_be_are_refused() -> None:
    for wrong in ((5, 4, 0, 1), (-1, 4, 0, 1), (0, 1, 2, 1)):
        with pytest.raises(ValueError, match="cannot be"):
            fisher_worse(*wrong)


def test_without_bad_ones_the_number_needed_is_the_rule_of_three() -> None:
    assert needed_to_exclude(0.001, 0.05) == 2995  # ln 0.05 / ln 0.999
    assert needed_to_exclude(0.01, 0.05) == 299


@given(st.integers(0, 5), st.sampled_from([0.001, 0.01, 0.1]))
def test_the_number_needed_is_the_least_that_excludes(bad: int, rate: float) -> None:
    n = needed_to_exclude(rate, 0.05, bad)
    assert 1 - binomial_tail(bad + 1, n, rate) <= 0.05
    assert n == bad + 1 or 1 - binomial_tail(bad + 1, n - 1, rate) > 0.05


def test_the_number_to_compare_finds_the_drop_about_as_often_as_it_says() -> None:
    rate, drop = 0.05, 0.1
    n = needed_to_compare(rate, drop, 0.05)
    # The power of the test, exactly: over all counts that the two sides can have.
    worse = [binomial_tail(k, n, rate + drop) for k in range(n + 1)] + [0.0]
    base = [binomial_tail(k, n, rate) for k in range(n + 1)] + [0.0]
    power = sum(
        (worse[a] - worse[a + 1]) * (base[b] - base[b + 1])
        for a in range(n + 1)
        for b in range(n + 1)
        if worse[a] - worse[a + 1] > 1e-9
        and base[b] - base[b + 1] > 1e-9
        and fisher_worse(a, n, b, n) <= 0.05
    )
    assert 0.78 <= power <= 0.9


def test_fewer_pairs_than_can_be_significant_are_never_enough() -> None:
    n = needed_pairs(0.0, 0.5, 0.05)
    assert mcnemar_worse(math.ceil(n * 0.5), 0) <= 0.05


def test_a_baseline_that_nearly_always_fails_needs_a_sample_all_the_same() -> None:
    assert needed_to_compare(1.0, 0.03, 0.05) == needed_to_compare(0.97, 0.03, 0.05) > 100


def test_a_drop_of_nothing_needs_no_sample() -> None:
    assert needed_to_compare(0.1, 0.0, 0.05) == 0
    assert needed_pairs(0.1, 0.0, 0.05) == 0
    assert needed_to_exclude(0.0, 0.05) == 0
