"""The least that a ledger does for its keeper and its fleet."""

from __future__ import annotations

from collections.abc import Sequence

from extproc.health.shared import SharedState
from extproc.health.states import State
from extproc.health.stores import Book


class FakeLedger:
    """States that change on demand, with epochs as the rules of ``shared`` want them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.states: dict[tuple[str, str], SharedState] = {}

    def change(self, unit: str, state: State, context: str = "short") -> None:
        """This sidecar's own decision."""
        held = self.states.get((unit, context))
        epoch = held.epoch + 1 if held else 1
        self.states[unit, context] = SharedState(
            unit, context, state, epoch, "r1", "alarmed", self.name, 0.0
        )

    def state(self, unit: str, context: str = "short") -> State:
        held = self.states.get((unit, context))
        return held.state if held else State.PASS

    def shared(self) -> dict[tuple[str, str], SharedState]:
        return dict(self.states)

    def adopt(self, states: Sequence[SharedState]) -> None:
        for state in states:
            if state.supersedes(self.states.get(state.key)):
                self.states[state.key] = state

    def snapshot(self) -> Book:
        return {"version": 1, "states": [state.as_dict() for state in self.states.values()]}
