"""The figures that docs/health.md states, with fewer runs of the same simulation."""

from __future__ import annotations

import statistics

import pytest

from bench.health import FAULTS, HEALTHY, Scenario, run


def scenario(name: str) -> Scenario:
    return next(s for s in FAULTS + HEALTHY if s.name == name)


@pytest.mark.parametrize(
    ("name", "median"),
    [
        ("answers only garbage", 3),
        ("10 % corrupt", 60),
        ("10 % corrupt, after 2 000 healthy answers", 60),
        ("canary with 1 % of the traffic, 20 % corrupt", 25),
        ("canary, 25 % suspect beside 2 % of the stable unit", 120),
    ],
)
def test_a_fault_is_found_within_its_median(name: str, median: int) -> None:
    found = [run((scenario(name), seed)) for seed in range(15)]
    assert all(found)
    assert statistics.median(n for n in found if n) <= median


def test_healthy_units_are_rarely_blamed() -> None:
    blamed = [run((scenario("0.2 % look corrupt"), seed)) for seed in range(6)]
    assert sum(n is not None for n in blamed) <= 1
