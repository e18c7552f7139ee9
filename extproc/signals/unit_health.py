"""What Envoy's active health checks are told.

503: drop it. 200 with ``x-envoy-degraded``: use it only when nothing healthy is left. 200: use
it. A unit nobody knows is healthy: a typo in a mesh must not take it down.

Asked for is a unit (``unit-a``), one context class of it (``unit-a#long``) or one of its hosts
(``unit-a@a1``).
"""

from __future__ import annotations

from typing import NamedTuple

from extproc.health import Ledger, Severity, State, severity
from extproc.units import Registry


class Answer(NamedTuple):
    """An HTTP answer: status code, headers, and the words for logs and metrics."""

    status: int
    headers: dict[str, str]
    word: str
    unit: str


def answer(asked: str, ledger: Ledger, registry: Registry) -> Answer:
    """The answer to a health check whose Host header is ``asked``."""

    def known(name: str) -> bool:
        return registry.get(name) is not None or name in ledger.units

    unit, context, host = asked, "", ""
    if not known(unit):  # an id may hold any of these signs itself
        unit, _, context = asked.rpartition("#")
        if not known(unit):
            unit, _, host = asked.rpartition("@")
            context = ""
    if not known(unit):
        return Answer(200, {"x-semantic-state": "unknown"}, "unknown", "unknown")
    state = ledger.state(unit, context) if context else ledger.unit_state(unit)
    if host:
        # Tier two asks this: the unit as a whole is tier one's business.
        drained = ledger.host_drained(unit, host)
        state = State.QUARANTINE if drained else State.PASS
        how = Severity.HARD if drained else Severity.NONE
    else:
        how = severity(unit, ledger, registry, context)
    headers = {"x-semantic-state": state.value}
    if how is Severity.HARD:
        return Answer(503, headers, "quarantined", unit)
    if how is Severity.SOFT:
        return Answer(200, {**headers, "x-envoy-degraded": "true"}, "degraded", unit)
    return Answer(200, headers, "healthy", unit)
