"""Hard or soft: whether what is quarantined may be cut off altogether.

Hard only while a verified fallback can take the traffic, and only for so many units at a time:
garbage now and then is better than nothing at all. Otherwise the unit is marked as the last
resort.
"""

from __future__ import annotations

from enum import StrEnum

from extproc.health.ledger import Ledger
from extproc.health.states import State
from extproc.units import Registry


class Severity(StrEnum):
    """How the mesh is to treat a unit, or one context class of it."""

    NONE = "none"
    SOFT = "soft"
    """Used only when nothing healthy is left."""

    HARD = "hard"
    """Not used at all."""


def severity(unit: str, ledger: Ledger, registry: Registry, context: str = "") -> Severity:
    """How the mesh is to treat ``unit``, or its class ``context``, now."""

    def state(name: str) -> State:
        return ledger.state(name, context) if context else ledger.unit_state(name)

    if state(unit) is not State.QUARANTINE:
        return Severity.NONE
    if not standby(unit, ledger, registry, context):
        return Severity.SOFT
    quarantined = [each.id for each in registry if ledger.unit_state(each.id) is State.QUARANTINE]
    first_out = sorted(quarantined, key=lambda name: (ledger.since(name), name))
    allowed = ledger.settings.max_quarantined * sum(1 for _ in registry)
    place = first_out.index(unit) + 1 if unit in first_out else len(first_out) + 1
    return Severity.HARD if place <= allowed else Severity.SOFT


def standby(unit: str, ledger: Ledger, registry: Registry, context: str = "") -> str:
    """The first verified fallback of ``unit`` that is well, "" if there is none."""
    known = registry.get(unit)
    for name in known.fallback if known is not None else ():
        state = ledger.state(name, context) if context else ledger.unit_state(name)
        if ledger.verified(name) and state is not State.QUARANTINE:
            return name
    return ""
