"""The sequential test: quick where it should be, silent where it must."""

from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.health.edetector import ALTERNATIVES, EDetector, steps_to_multiples, steps_to_rates

ALARM = 1e4


def responses_to_alarm(rate: float, seed: int, p0: float = 0.001, limit: int = 20_000) -> int:
    rng = random.Random(seed)
    detector, steps = EDetector(), steps_to_rates(p0)
    for at in range(1, limit + 1):
        detector.update(rng.random() < rate, steps)
        if detector.value >= ALARM:
            return at
    return limit + 1


def test_a_unit_that_only_answers_garbage_alarms_at_the_second_answer() -> None:
    assert responses_to_alarm(1.0, 1) == 2


@pytest.mark.parametrize(("rate", "median"), [(0.5, 8), (0.2, 25), (0.1, 60), (0.05, 120)])
def test_the_median_delay_at_a_corrupt_rate(rate: float, median: int) -> None:
    assert statistics.median(responses_to_alarm(rate, seed) for seed in range(60)) <= median


@pytest.mark.parametrize("p0", [0.001, 0.01])
def test_at_the_baseline_rate_alarms_are_rarer_than_the_stated_bound(p0: float) -> None:
    # alpha 1e-4 allows, over 4 000 responses, an alarm in at most 40 % of the runs.
    alarms = sum(responses_to_alarm(p0, seed, p0, 4000) <= 4000 for seed in range(60))
    assert alarms <= 24


@given(st.floats(1e-4, 0.4))
def test_a_response_is_worth_one_on_average_at_the_baseline_rate(p0: float) -> None:
    # The mean of e-values at p0 is what makes the error rate hold.
    import math

    for steps in (steps_to_rates(p0), steps_to_multiples(p0)):
        for hit, miss in zip(steps.hit, steps.miss, strict=True):
            assert p0 * math.exp(hit) + (1 - p0) * math.exp(miss) == pytest.approx(1.0)


def test_a_long_healthy_past_does_not_delay_the_alarm() -> None:
    detector, steps = EDetector(), steps_to_rates(0.001)
    for _ in range(50_000):
        detector.update(False, steps)
    for _ in range(2):
        detector.update(True, steps)
    assert detector.value >= ALARM


def test_the_value_stays_finite() -> None:
    detector, steps = EDetector(), steps_to_rates(0.001)
    for _ in range(5000):
        detector.update(True, steps)
    assert ALARM < detector.value < float("inf")


def test_a_weight_makes_a_hit_say_less() -> None:
    whole, half, none = EDetector(), EDetector(), EDetector()
    steps = steps_to_rates(0.001)
    whole.update(True, steps)
    half.update(True, steps, 0.5)
    none.update(True, steps, 0.0)
    assert whole.value > half.value > none.value == 1.0


def test_a_baseline_above_an_alternative_leaves_that_one_out() -> None:
    steps = steps_to_rates(0.02)
    assert steps.hit[0] == steps.miss[0] == 0.0
    assert all(step > 0 for step in steps.hit[1:])
    assert len(steps.hit) == len(ALTERNATIVES)
