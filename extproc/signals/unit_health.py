"""What Envoy's active health checks are told about a unit.

503: drop the unit. 200 with ``x-envoy-degraded``: use it only when nothing healthy is left.
200: use it. A unit nobody knows is healthy: a typo in a mesh must not take it down.
"""

from __future__ import annotations

from typing import NamedTuple

from extproc.health import Ledger, Severity, severity
from extproc.units import Registry


class Answer(NamedTuple):
    """An HTTP answer: status code, headers, and the word for logs and metrics."""

    status: int
    headers: dict[str, str]
    word: str


def answer(unit: str, ledger: Ledger, registry: Registry) -> Answer:
    """The answer to a health check whose Host header names ``unit``."""
    if registry.get(unit) is None and unit not in ledger.units:
        return Answer(200, {"x-semantic-state": "unknown"}, "unknown")
    state = {"x-semantic-state": ledger.unit_state(unit).value}
    how = severity(unit, ledger, registry)
    if how is Severity.HARD:
        return Answer(503, state, "quarantined")
    if how is Severity.SOFT:
        return Answer(200, {**state, "x-envoy-degraded": "true"}, "degraded")
    return Answer(200, state, "healthy")
