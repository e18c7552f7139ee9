"""What rate is no news."""

from __future__ import annotations

import pytest

from extproc.detect import Kind
from extproc.health.baseline import LAG, MEMORY, Baseline, upper_bound


@pytest.mark.parametrize(
    ("hits", "total", "bound"),
    # Clopper and Pearson's one-sided 95 % bounds, from the beta distribution, rounded up.
    [(0, 100, 0.030), (0, 1000, 0.0030), (1, 100, 0.047), (5, 1000, 0.011), (10, 1000, 0.017)],
)
def test_the_bound_is_clopper_and_pearson_s(hits: int, total: int, bound: float) -> None:
    assert upper_bound(hits, total) == pytest.approx(bound, rel=0.04)


def test_nothing_seen_is_nothing_known() -> None:
    assert upper_bound(0, 0) == 1.0
    assert Baseline().suspect_rate() == 1.0
    assert Baseline().corrupt_rate(0.004) == pytest.approx(0.004)


def test_a_rate_is_learnt_with_a_lag() -> None:
    baseline = Baseline()
    for _ in range(LAG - 1):
        baseline.add(Kind.CORRUPT, well=True)
    assert baseline.settled.total == 0
    baseline.add(Kind.CLEAN, well=True)
    assert (baseline.settled.total, baseline.settled.corrupt) == (LAG, LAG - 1)


def test_what_a_unit_did_before_it_was_found_ill_is_not_learnt() -> None:
    baseline = Baseline()
    for _ in range(LAG - 1):
        baseline.add(Kind.CORRUPT, well=True)
    baseline.add(Kind.CORRUPT, well=False)
    for _ in range(LAG):
        baseline.add(Kind.CLEAN, well=True)
    assert baseline.settled.corrupt == 0


def test_old_answers_fade() -> None:
    baseline = Baseline()
    for _ in range(MEMORY):
        baseline.add(Kind.SUSPECT, well=True)
    for _ in range(4 * MEMORY):
        baseline.add(Kind.CLEAN, well=True)
    assert baseline.settled.total <= 2 * MEMORY
    assert baseline.suspect_rate() < 0.1
