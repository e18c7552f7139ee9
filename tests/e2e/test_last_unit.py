"""Outlier detection never takes the last unit away."""

from __future__ import annotations

from tests.e2e.conftest import Make
from tests.e2e.upstream import BANG_JSON, BANG_STREAM, answers

BANG = answers(BANG_STREAM, BANG_JSON)


async def test_with_both_units_corrupt_one_still_answers(gateway: Make) -> None:
    # Envoy alone: here nothing is ever bad enough for the sidecar to say anything on a unit.
    g = await gateway(BANG, BANG, sidecar={"health": {"alpha": 1e-300, "observe_at": 1e299}})
    for _ in range(10):
        assert (await g.ask()).status == 200
    out = [unit for unit in ("unit_a", "unit_b") if await g.flags(unit)]
    assert len(out) == 1
    assert await g.stat("cluster.llm.outlier_detection.ejections_overflow") > 0
