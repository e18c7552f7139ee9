"""Hard or soft: whether a quarantined unit may be cut off altogether.

Hard only while some verified fallback can take the traffic; otherwise garbage now and then is
better than nothing at all, and the unit is only marked as the last resort.
"""

from __future__ import annotations

from enum import StrEnum

from extproc.health.ledger import Ledger
from extproc.health.states import State
from extproc.units import Registry


class Severity(StrEnum):
    """How the mesh is to treat a unit."""

    NONE = "none"
    SOFT = "soft"
    """Used only when nothing healthy is left."""

    HARD = "hard"
    """Not used at all."""


def severity(unit: str, ledger: Ledger, registry: Registry) -> Severity:
    """How the mesh is to treat ``unit`` now."""
    if ledger.unit_state(unit) is not State.QUARANTINE:
        return Severity.NONE
    known = registry.get(unit)
    for name in known.fallback if known is not None else ():
        other = registry.get(name)
        if other is not None and other.verified and ledger.unit_state(name) is not State.QUARANTINE:
            return Severity.HARD
    return Severity.SOFT
