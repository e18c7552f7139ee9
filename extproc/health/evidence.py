"""The record behind a verdict or a change of state: enough to look into, and no text.

Pure: ids are made of the time and a counter, under the name of the sidecar that makes them.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from extproc.detect import Finding, Kind, Weight
from extproc.health.states import State


class Subject(StrEnum):
    """What a record is about."""

    VERDICT = "verdict"
    """One corrupt response."""

    STATE = "state"
    """A change of state, with the response that brought it about, if one did."""

    VERIFICATION = "verification"
    """What is said of a release: that it may take others' traffic, or no longer may."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One record. ``at`` is Unix time in seconds; what is not known is "" (``attempt``: 0).

    ``host`` and ``context`` are "*" where the record is about all of them. ``before``, ``after``,
    ``cause`` and ``e_value`` belong to a change of state.
    """

    id: str
    subject: Subject
    at: float
    unit: str
    release: str
    context: str
    host: str
    verdict: Kind
    findings: tuple[Finding, ...] = ()
    request_id: str = ""
    traceparent: str = ""
    attempt: int = 0
    before: State | None = None
    after: State | None = None
    cause: str = ""
    e_value: float = 0.0
    sample: str = ""
    """A masked end of the text that was judged, if the operator wants it kept."""

    sample_until: float = 0.0
    """When ``sample`` is to be forgotten."""

    text_hash: str = ""
    """A keyed hash of that text: equal texts have equal ones."""

    def unquoted(self) -> Evidence:
        """The same without the sample."""
        return replace(self, sample="", sample_until=0.0) if self.sample else self

    def kept_at(self, now: float) -> Evidence:
        """What of it may still be kept at ``now``."""
        return self.unquoted() if self.sample_until <= now else self

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it: what protobuf's JSON mapping makes of ``semantic.v1.Evidence``."""
        content = asdict(self)
        content["findings"] = [_finding_as_dict(finding) for finding in self.findings]
        for name in ("at", "e_value", "sample_until"):
            content[name] = _number(content[name])
        return content

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Evidence:
        """The record that ``as_dict`` described. Raises KeyError, TypeError or ValueError."""
        found = dict(content)
        found["subject"] = Subject(found["subject"])
        found["verdict"] = Kind(found["verdict"])
        found["findings"] = tuple(
            Finding(
                **{
                    **finding,
                    "value": float(finding["value"]),
                    "threshold": float(finding["threshold"]),
                    "weight": Weight(finding["weight"]),
                }
            )
            for finding in found["findings"]
        )
        for name in ("at", "e_value", "sample_until"):
            found[name] = float(found.get(name, 0.0))
        for name in ("before", "after"):
            found[name] = State(found[name]) if found[name] is not None else None
        return cls(**found)


def _finding_as_dict(finding: Finding) -> dict[str, Any]:
    content = finding._asdict()
    content["value"], content["threshold"] = _number(finding.value), _number(finding.threshold)
    return content


def _number(value: float) -> float | str:
    # JSON has no number for these; protobuf's mapping names them, and float() reads the names.
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


class Ids:
    """Ids of records: ordered by time within one sidecar, different between sidecars."""

    def __init__(self, instance: str) -> None:
        self._instance = instance
        self._last = 0

    def next(self, at: float) -> str:
        """A new id for a record of time ``at``."""
        self._last = max(int(at * 1e6), self._last + 1)  # the clock may jump back
        return f"{self._last:x}-{self._instance}"


class Limiter:
    """At most ``most`` records a unit in each period of ``seconds``: a broken unit makes many."""

    MAX_UNITS = 512

    def __init__(self, most: int = 20, seconds: float = 60.0) -> None:
        self._most = most
        self._seconds = seconds
        self._periods: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def allows(self, unit: str, at: float) -> bool:
        """Whether one more record of ``unit`` may be kept at ``at``."""
        start, count = self._periods.get(unit, (at, 0))
        if not 0 <= at - start < self._seconds:  # also when the clock jumped back
            start, count = at, 0
        self._periods[unit] = (start, count + 1)
        self._periods.move_to_end(unit)
        if len(self._periods) > self.MAX_UNITS:
            self._periods.popitem(last=False)
        return count < self._most
