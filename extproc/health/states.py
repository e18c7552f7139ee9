"""The states of a unit, and the one table that says how they change.

Rules:
- Evidence only moves a state towards ``quarantine``, one step or two; time alone moves nothing.
- ``observe`` ends by itself after enough clean responses in a row; ``quarantine`` never does.
- A new release starts in ``observe``, whatever the one before it had come to.
- An operator's word overrides the table until the operator takes it back.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Of one unit in one context class."""

    PASS = "pass"
    """May take more traffic."""

    OBSERVE = "observe"
    """Keep the canary weight, inspect everything, hold longer."""

    QUARANTINE = "quarantine"
    """No new traffic."""


class Signal(StrEnum):
    """What may change a state."""

    WARNED = "warned"
    """The e-value passed the observe line."""

    ALARMED = "alarmed"
    """The e-value passed 1/alpha."""

    CLEARED = "cleared"
    """Enough clean responses in a row, and no evidence left."""

    RELEASED = "released"
    """A release not seen before, or passed probes: start again, watched."""


TRANSITIONS: dict[State, dict[Signal, State]] = {
    State.PASS: {
        Signal.WARNED: State.OBSERVE,
        Signal.ALARMED: State.QUARANTINE,
        Signal.RELEASED: State.OBSERVE,
    },
    State.OBSERVE: {
        Signal.ALARMED: State.QUARANTINE,
        Signal.CLEARED: State.PASS,
        Signal.RELEASED: State.OBSERVE,
    },
    State.QUARANTINE: {
        Signal.RELEASED: State.OBSERVE,
    },
}
"""A signal that is not listed leaves the state as it is."""


def after(state: State, signal: Signal) -> State:
    """The state that ``signal`` leads to."""
    return TRANSITIONS[state].get(signal, state)


SEVERITY = {State.PASS: 0, State.OBSERVE: 1, State.QUARANTINE: 2}


def worst(states: list[State]) -> State:
    """The gravest of several states; ``pass`` when there are none."""
    return max(states, key=SEVERITY.__getitem__, default=State.PASS)
