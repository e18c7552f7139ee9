"""What a worker knows of the book: the states it was told last."""

from __future__ import annotations

from collections.abc import Iterable

from extproc.health import ALL, Ledger, State

Row = list[str]
"""[unit, context class or "*", state]."""


def state_rows(ledger: Ledger) -> list[Row]:
    """All that is not ``pass``."""
    out: list[Row] = []
    for unit in ledger.units:
        if ledger.held(unit) is not None:
            out.append([unit, ALL, State.QUARANTINE.value])
            continue
        for context in dict.fromkeys(context for _, context, _ in ledger.tracks(unit)):
            state = ledger.state(unit, context)
            if state is not State.PASS:
                out.append([unit, context, state.value])
    return out


class States:
    """Answers what the ledger would have answered when it last told."""

    def __init__(self) -> None:
        self._states: dict[tuple[str, str], State] = {}

    def take(self, rows: Iterable[Row]) -> None:
        """Replaces all of it. Raises ValueError for a state that is none."""
        self._states = {(unit, context): State(state) for unit, context, state in rows}

    def state(self, unit: str, context: str) -> State:
        """The state of a unit in one context class."""
        states = self._states
        if not states:
            return State.PASS
        return states.get((unit, ALL)) or states.get((unit, context), State.PASS)
