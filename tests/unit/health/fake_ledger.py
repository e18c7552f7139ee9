"""The least that a ledger does for its keeper and its fleet."""

from __future__ import annotations

from collections.abc import Sequence

from extproc.health.definitions import Gateway
from extproc.health.shared import Key, SharedState, Telling, supersedes, was_first
from extproc.health.states import State
from extproc.health.stores import Book


class FakeLedger:
    """States that change on demand, with epochs as the rules of ``shared`` want them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.states: dict[Key, SharedState] = {}
        self.gateway: Gateway | None = None
        self.met: list[Gateway] = []

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

    def shared(self) -> dict[Key, Telling]:
        return dict(self.states)

    def adopt(self, told: Sequence[Telling]) -> int:
        taken = 0
        for state in told:
            assert isinstance(state, SharedState)
            own = self.states.get(state.key)
            if supersedes(state, own):
                self.states[state.key] = state
                taken += 1
            elif own is not None and was_first(state, own):
                self.states[state.key] = state
        return taken

    def meet(self, gateways: Sequence[Gateway]) -> None:
        self.met = list(gateways)

    def exchanged(self, ok: bool) -> None:
        pass

    def snapshot(self) -> Book:
        return {"version": 1, "states": [state.as_dict() for state in self.states.values()]}
