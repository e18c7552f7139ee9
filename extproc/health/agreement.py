"""What this sidecar tells the others about its units, and what it takes over from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extproc.health.ledger import Ledger
from extproc.health.report import ALL, Change
from extproc.health.shared import SharedState
from extproc.health.states import State


class Agreement:
    """Between the book and the fleet. ``instance`` names this sidecar.

    A state that changed here since it was last told gets the next epoch; of what others tell, only
    what supersedes the last telling is taken over. ``told``: what ``shared`` said before a restart.
    """

    def __init__(self, ledger: Ledger, instance: str, told: Iterable[SharedState] = ()) -> None:
        self._ledger = ledger
        self._instance = instance
        self._told = {state.key: state for state in told}

    def shared(self) -> dict[tuple[str, str], SharedState]:
        """The states of all units as they are now. A unit that was always in ``pass`` is no
        news: it is told only once something has been told of it."""
        for unit in self._ledger.units:
            for context in {ALL, *(context for _, context, _ in self._ledger.tracks(unit))}:
                self._tell(unit, context)
        return dict(self._told)

    def adopt(self, states: Sequence[SharedState], at: float) -> list[Change]:
        """Takes over what others tell, where it holds against what is known here."""
        self.shared()  # what changed here meanwhile has its epoch before it is compared
        changes: list[Change] = []
        for state in states:
            if not state.supersedes(self._told.get(state.key)):
                continue
            self._told[state.key] = state
            changes += self._ledger.impose(
                state.unit, state.context, state.state, state.release, state.cause, at
            )
        return changes

    def _tell(self, unit: str, context: str) -> None:
        ledger, last = self._ledger, self._told.get((unit, context))
        held = ledger.held(unit)
        if context == ALL:
            now = State.QUARANTINE if held is not None else State.OBSERVE
            before = last.state if last is not None else State.OBSERVE
        else:
            now = ledger.class_state(unit, context)
            before = last.state if last is not None else State.PASS
        if now is before:
            return
        epoch = last.epoch + 1 if last is not None else 1
        cause = held if context == ALL and held is not None else ledger.cause(unit, context)
        self._told[unit, context] = SharedState(
            unit, context, now, epoch, ledger.release(unit), cause, self._instance,
            ledger.since(unit),
        )  # fmt: skip
