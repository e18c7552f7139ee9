"""The sequential test: quick where it should be, silent where it must."""

from __future__ import annotations

import random
import statistics

import pytest

from extproc.health.edetector import DetectorSettings, EDetector

SETTINGS = DetectorSettings()


def responses_to_alarm(rate: float, seed: int, limit: int = 20_000) -> int:
    rng = random.Random(seed)
    detector = EDetector(SETTINGS)
    for at in range(1, limit + 1):
        detector.update(rng.random() < rate)
        if detector.value >= 1 / SETTINGS.alpha:
            return at
    return limit + 1


def test_a_unit_that_only_answers_garbage_alarms_at_the_second_answer() -> None:
    assert responses_to_alarm(1.0, 1) == 2


@pytest.mark.parametrize(("rate", "median"), [(0.5, 8), (0.2, 25), (0.1, 60), (0.05, 120)])
def test_the_median_delay_at_a_corrupt_rate(rate: float, median: int) -> None:
    assert statistics.median(responses_to_alarm(rate, seed) for seed in range(60)) <= median


def test_at_the_baseline_rate_alarms_are_rarer_than_the_stated_bound() -> None:
    # alpha 1e-4 allows, over 4 000 responses, an alarm in at most 40 % of the runs.
    alarms = sum(responses_to_alarm(SETTINGS.p0, seed, 4000) <= 4000 for seed in range(60))
    assert alarms <= 24


def test_a_long_healthy_past_does_not_delay_the_alarm() -> None:
    detector = EDetector(SETTINGS)
    for _ in range(50_000):
        detector.update(False)
    for _ in range(2):
        detector.update(True)
    assert detector.value >= 1 / SETTINGS.alpha


def test_the_value_stays_finite() -> None:
    detector = EDetector(SETTINGS)
    for _ in range(5000):
        detector.update(True)
    assert detector.value < float("inf")
