"""Whether all sidecars of a fleet mean the same thing by a unit's name. Pure.

Rules:
- Two definitions differ where both say something of a field and do not say the same.
- What most sidecars say holds; of two that equally many say, the one of the sidecar whose name
  sorts first. So all come to one answer by themselves.
- A sidecar that says something else of how tokens are computed stands apart: it keeps what it finds
  of that unit to itself and takes nothing over. Nothing is forgotten on either side.
- A different release is told, no more: a state says which release it is of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from extproc.units import Unit

RELEASE = "release"
MAX_UNITS = 1024
MAX_TEXT = 256

_UNSAID: dict[str, Any] = {
    field.name: field.default
    for field in fields(Unit)
    if field.name not in ("id", "fallback", "verified", "detectors_off")
}
"""Field of a definition -> its value where nothing is said."""

Definition = Mapping[str, str]
"""Field -> value, of the fields that say something."""


class Gateway(NamedTuple):
    """One sidecar of a fleet, and what it means by the units' names."""

    by: str
    units: Mapping[str, Definition]

    @property
    def name(self) -> str:
        """One word for it."""
        return f"gateway:{self.by}"

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"by": self.by, "units": {unit: dict(said) for unit, said in self.units.items()}}

    @classmethod
    def from_dict(cls, content: object) -> Gateway:
        """The sidecar that ``as_dict`` described. Raises ValueError for anything else."""
        if not isinstance(content, dict) or content.keys() != {"by", "units"}:
            raise ValueError("not a sidecar")
        by, units = content["by"], content["units"]
        if not isinstance(by, str) or not isinstance(units, dict) or len(units) > MAX_UNITS:
            raise ValueError("not a sidecar")
        for said in units.values():
            # A field that only a later version knows says nothing here, and is no fault.
            if not isinstance(said, dict) or not all(
                isinstance(value, str) and len(name) <= MAX_TEXT >= len(value)
                for name, value in said.items()
            ):
                raise ValueError("not a definition")
        return cls(by, units)


def definition(unit: Unit) -> dict[str, str]:
    """What a configuration says of a unit."""
    return {
        name: str(value)[:MAX_TEXT]
        for name, unsaid in _UNSAID.items()
        if (value := getattr(unit, name)) != unsaid
    }


class Dispute(NamedTuple):
    """One unit that not all sidecars define alike. ``apart``: this one keeps it to itself.
    ``differences``: for people."""

    unit: str
    apart: bool
    differences: str


def disputes(own: Gateway, others: Iterable[Gateway]) -> dict[str, Dispute]:
    """Units of ``own`` that another sidecar defines differently."""
    others = sorted((each for each in others if each.by != own.by), key=lambda each: each.by)
    found: dict[str, Dispute] = {}
    for unit, ours in own.units.items():
        differing = [each for each in others if _differences(ours, each.units.get(unit, {}))]
        if differing:
            holds = _held_by_most(unit, [own, *others])
            apart = bool(set(_differences(ours, holds)) - {RELEASE})
            found[unit] = Dispute(unit, apart, "; ".join(_say(unit, ours, differing)))
    return found


def _differences(one: Definition, two: Definition) -> list[str]:
    return [name for name in one if name in two and one[name] != two[name]]


def _held_by_most(unit: str, gateways: list[Gateway]) -> Definition:
    said: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for gateway in gateways:
        if unit in gateway.units:
            path = sorted(gateway.units[unit].items())
            words = tuple((name, value) for name, value in path if name != RELEASE)
            said.setdefault(words, []).append(gateway.by)
    most = min(said.items(), key=lambda entry: (-len(entry[1]), min(entry[1])))
    return dict(most[0])


def _say(unit: str, ours: Definition, differing: list[Gateway]) -> list[str]:
    words: dict[str, list[str]] = {}
    for gateway in differing:
        theirs = gateway.units[unit]
        for name in _differences(ours, theirs):
            words.setdefault(f"{name} is {ours[name]!r} here, {theirs[name]!r}", []).append(
                gateway.by
            )
    return [
        f"{word} on {', '.join(names[:3])}" + (f" and {len(names) - 3} more" * (len(names) > 3))
        for word, names in words.items()
    ]
