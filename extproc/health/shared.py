"""What gateways tell each other about a unit, and which of two tellings holds.

Rules:
- Each telling carries an epoch. Whoever changes what is told gives it the next epoch.
- Of two tellings of one thing the one with the higher epoch holds; of equal epochs the graver; of
  equal ones the one that was told first. The place where all tell decides which that was, so all
  sidecars end in one view, whatever their clocks say, and one of them knows that it was the first.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

from extproc.health.states import SEVERITY, State
from extproc.health.verification import Verification

MAX_EPOCH = 2**31 - 1
"""What ``semantic.v1.UnitState`` holds, and a Lua number exactly."""

Key: TypeAlias = tuple[str, ...]


class SharedState(NamedTuple):
    """The state of a unit in one context class, as one sidecar (``by``) left it.

    ``context`` "*" stands for an operator's word on the whole unit: ``quarantine`` while it is
    held out, another state once it has been let in again. ``at`` (Unix time in seconds) is for
    people; nothing is decided by it.
    """

    unit: str
    context: str
    state: State
    epoch: int
    release: str
    cause: str
    by: str
    at: float

    @property
    def key(self) -> Key:
        """(unit, context)."""
        return self.unit, self.context

    @property
    def name(self) -> str:
        """The same as one word."""
        return f"state:{self.unit}#{self.context}"  # no name of a unit or class holds "#"

    @property
    def rank(self) -> int:
        """How grave it is."""
        return SEVERITY[self.state]

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return self._asdict() | {"state": self.state.value}

    @classmethod
    def from_dict(cls, content: object) -> SharedState:
        """The state that ``as_dict`` described. Raises ValueError for anything else."""
        fields = _checked(content, cls._fields, ("unit", "context", "release", "cause", "by"))
        if not fields["unit"] or not fields["context"]:
            raise ValueError("unit and context must be named")
        return cls(**{**fields, "state": State(fields["state"]), "at": _time(fields["at"])})


class SharedVerification(NamedTuple):
    """What is said of a release as a fallback, as one sidecar (``by``) was told it or found it
    lapsed. ``until`` and ``at`` are Unix time in seconds."""

    unit: str
    release: str
    until: float
    cause: str
    at: float
    lapsed: bool
    epoch: int
    by: str

    @property
    def key(self) -> Key:
        """(a word, unit, release)."""
        return verification_key(self.unit, self.release)

    @property
    def name(self) -> str:
        """The same as one word."""
        return f"verified:{self.unit}#{self.release}"

    @property
    def rank(self) -> int:
        """Its end is graver."""
        return int(self.lapsed)

    @property
    def said(self) -> Verification:
        """What the ledger keeps of it."""
        return Verification(self.unit, self.release, self.until, self.cause, self.at, self.lapsed)

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return self._asdict()

    @classmethod
    def from_dict(cls, content: object) -> SharedVerification:
        """The one that ``as_dict`` described. Raises ValueError for anything else."""
        fields = _checked(content, cls._fields, ("unit", "release", "cause", "by"))
        if not fields["unit"] or type(fields["lapsed"]) is not bool:
            raise ValueError("not a verification")
        return cls(**{**fields, "at": _time(fields["at"]), "until": _time(fields["until"])})


Telling: TypeAlias = SharedState | SharedVerification


def supersedes(telling: Telling, other: Telling | None) -> bool:
    """Whether ``telling`` holds against ``other``, told before."""
    return other is None or (telling.epoch, telling.rank) > (other.epoch, other.rank)


def was_first(telling: Telling, other: Telling) -> bool:
    """Whether ``telling``, which stands where all tell, says what ``other`` says, and another
    sidecar said it first."""
    same = (telling.epoch, telling.rank) == (other.epoch, other.rank)
    return same and telling.by != other.by


def verification_key(unit: str, release: str) -> Key:
    """``SharedVerification.key``."""
    return "verified", unit, release


def telling(content: object) -> Telling:
    """The telling that ``as_dict`` described. Raises ValueError for anything else."""
    if isinstance(content, dict) and "lapsed" in content:
        return SharedVerification.from_dict(content)
    return SharedState.from_dict(content)


def _checked(content: object, names: tuple[str, ...], texts: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(content, dict) or content.keys() != set(names):
        raise ValueError("not what sidecars tell")
    for name in texts:
        if not isinstance(content[name], str):
            raise ValueError(f"{name} is no text")
    epoch = content["epoch"]
    if type(epoch) is not int or not 0 <= epoch <= MAX_EPOCH:
        raise ValueError("epoch is no natural number")
    return content


def _time(value: object) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):  # type: ignore[arg-type]
        raise ValueError("a time is no number")
    return float(value)  # type: ignore[arg-type]
