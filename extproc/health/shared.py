"""What gateways tell each other about a unit, and which of two tellings holds.

Rules:
- Each state carries an epoch. Whoever changes a state gives it the next epoch.
- Of two states of one unit and class, the one with the higher epoch holds; of equal epochs the
  graver; of equal states the one whose sidecar's name sorts last. So any order of arrival leads
  all sidecars to the same state, whatever their clocks say.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from extproc.health.states import SEVERITY, State

MAX_EPOCH = 2**31 - 1
"""What ``semantic.v1.UnitState`` holds, and a Lua number exactly."""


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
    def key(self) -> tuple[str, str]:
        """(unit, context)."""
        return self.unit, self.context

    @property
    def order(self) -> tuple[int, int, str]:
        """Sorts tellings about one unit and class: the greatest holds."""
        return self.epoch, SEVERITY[self.state], self.by

    def supersedes(self, other: SharedState | None) -> bool:
        """Whether this telling holds against ``other``."""
        return other is None or self.order > other.order

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return self._asdict() | {"state": self.state.value}

    @classmethod
    def from_dict(cls, content: object) -> SharedState:
        """The state that ``as_dict`` described. Raises ValueError for anything else."""
        if not isinstance(content, dict) or content.keys() != set(cls._fields):
            raise ValueError("not a shared state")
        for name in ("unit", "context", "release", "cause", "by"):
            if not isinstance(content[name], str):
                raise ValueError(f"{name} is no text")
        epoch, at = content["epoch"], content["at"]
        if type(epoch) is not int or not 0 <= epoch <= MAX_EPOCH:
            raise ValueError("epoch is no natural number")
        if type(at) not in (int, float):
            raise ValueError("at is no number")
        if not content["unit"] or not content["context"]:
            raise ValueError("unit and context must be named")
        return cls(**{**content, "state": State(content["state"]), "at": float(at)})
