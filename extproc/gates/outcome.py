"""What checks, gates and runs come to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from extproc.gates.conditions import Condition


class Status(StrEnum):
    """``undecided``: too little is known for a yes or a no. ``skipped``: it does not apply, or
    cannot be measured here; the reason says which. ``missed``: one sample of many was not as it
    should be; the check of the rate decides."""

    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"
    SKIPPED = "skipped"
    MISSED = "missed"


Value = float | int | str | bool | None


@dataclass(frozen=True, slots=True)
class Check:
    """One finished check.

    ``reason`` is a line for people: what was seen. ``measured`` are the numbers behind it by
    name. ``conditions`` are what it hits if it failed. ``answered`` is False when the endpoint
    gave no answer to judge: such a check is run again when the run is resumed.
    """

    name: str
    status: Status
    reason: str
    measured: Mapping[str, Value] = field(default_factory=dict)
    threshold: float | None = None
    conditions: tuple[Condition, ...] = ()
    answered: bool = True
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """JSON values only. A number that is not finite becomes its name."""
        return {
            "name": self.name,
            "status": self.status.value,
            "reason": self.reason,
            "measured": {name: _plain(value) for name, value in self.measured.items()},
            "threshold": self.threshold,
            "conditions": [condition.value for condition in self.conditions],
            "answered": self.answered,
            "seconds": round(self.seconds, 3),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Check:
        """The check that ``as_dict`` wrote. Raises KeyError, TypeError or ValueError."""
        return cls(
            str(content["name"]),
            Status(content["status"]),
            str(content["reason"]),
            dict(content["measured"]),
            content["threshold"],
            tuple(Condition(name) for name in content["conditions"]),
            bool(content["answered"]),
            float(content["seconds"]),
        )


Measured = Mapping[str, Value]
_NOTHING: Measured = MappingProxyType({})


def passed(
    name: str, reason: str, threshold: float | None = None, measured: Measured = _NOTHING
) -> Check:
    """A check that passed."""
    return Check(name, Status.PASSED, reason, measured, threshold)


def failed(
    name: str,
    reason: str,
    *conditions: Condition,
    threshold: float | None = None,
    measured: Measured = _NOTHING,
    answered: bool = True,
) -> Check:
    """A check that failed, and what that hits."""
    return Check(name, Status.FAILED, reason, measured, threshold, conditions, answered)


def skipped(name: str, reason: str, measured: Measured = _NOTHING) -> Check:
    """A check that does not apply or cannot be measured here."""
    return Check(name, Status.SKIPPED, reason, measured)


def undecided(
    name: str, reason: str, threshold: float | None = None, measured: Measured = _NOTHING
) -> Check:
    """A check that needs to see more."""
    return Check(name, Status.UNDECIDED, reason, measured, threshold)


@dataclass(frozen=True, slots=True)
class GateResult:
    """One gate: ``number`` 1 to 5, 0 for the execution path. ``name`` is that of the settings."""

    number: int
    name: str
    checks: tuple[Check, ...]
    resumed: int = 0
    """Checks that an earlier, interrupted run had finished."""

    @property
    def status(self) -> Status:
        """Failed if a check failed; undecided if one is; passed if one passed."""
        return overall(check.status for check in self.checks)

    @property
    def seconds(self) -> float:
        return sum(check.seconds for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """JSON values only."""
        return {
            "gate": self.number,
            "name": self.name,
            "status": self.status.value,
            "seconds": round(self.seconds, 3),
            "resumed_checks": self.resumed,
            "checks": [check.as_dict() for check in self.checks],
        }


def overall(statuses: Iterable[Status]) -> Status:
    """What several come to together."""
    found = set(statuses)
    for status in (Status.FAILED, Status.UNDECIDED, Status.PASSED):
        if status in found:
            return status
    return Status.SKIPPED


def hit(gates: Iterable[GateResult], wanted: Iterable[Condition]) -> list[Condition]:
    """The wanted conditions that failed checks hit, in the order of ``wanted``."""
    found = {
        condition
        for gate in gates
        for check in gate.checks
        if check.status is Status.FAILED
        for condition in check.conditions
    }
    return [condition for condition in wanted if condition in found]


def _plain(value: Value) -> Value:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return round(value, 6) if isinstance(value, float) else value
