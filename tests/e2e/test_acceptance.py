"""What docs/health.md promises, through real Envoy, with fewer runs of bench/acceptance.py."""

from __future__ import annotations

import pytest

from bench.acceptance import Outcome, measure


async def measured(what: str, responses: int = 0) -> Outcome:
    return await measure(what, responses, 1, 1, lambda share: None)


async def test_a_unit_that_answers_only_garbage_is_out_within_three_answers() -> None:
    outcome = await measured("garbage")
    assert outcome.kept, outcome


async def test_a_unit_that_corrupts_a_tenth_of_its_answers_is_out_soon() -> None:
    outcome = await measured("tenth")
    (out,) = outcome.quarantined_after
    assert out <= 150  # the median of many runs is promised to be at most 60


@pytest.mark.parametrize("what", ["alike", "anew"])
async def test_a_healthy_unit_stays_in_whatever_is_asked_of_it(what: str) -> None:
    outcome = await measured(what, 200)
    assert outcome.quarantined_after == []
    assert outcome.answers >= 195  # the last may still be on their way into the book
