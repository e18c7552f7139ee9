"""Log probabilities that no softmax over finite logits gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from extproc.detect.detector import Ending, Setting
from extproc.detect.finding import Finding, Weight
from extproc.wire import Event, Logprobs


@dataclass(slots=True)
class _Choice:
    seen: int = 0
    nulls: int = 0  # past the first token
    floor: int = 0  # at or below the clamp
    last: float | None = None
    same: int = 0
    flat: int = 0
    said: set[str] = field(default_factory=set)


class LogprobAnomaly:
    """``null`` (tokens): a generated token without a log probability. The first may lack one
    (under echo nothing precedes it); a later one has none only when the logits were NaN, which
    JSON encoders write as null.
    ``positive``: a probability above one, by more than float noise.
    ``clamped`` (tokens): the chosen tokens all at -9999 or the lowest float: ``max(lp, -9999)``
    is what NaN becomes in vLLM.
    ``identical`` (tokens): the same value but zero at every step. Certain tokens round to zero;
    any other value repeats only when the logits do, as with uniform logits: -ln(vocabulary).
    ``flat`` (tokens): all listed alternatives equally likely and each improbable.
    Source: recorded responses with NaN and zeroed weights; guided decoding gives long runs of
    0.0 and lists -9999.0 among alternatives, which none of these count.
    """

    __slots__ = ("_choices", "_limits")

    name: ClassVar[str] = "logprobs"
    reads = (Logprobs,)

    def __init__(
        self,
        nulls: int = 2,
        identical: int = 8,
        clamped: int = 4,
        flat: int = 4,
    ) -> None:
        self._limits = (nulls, identical, clamped, flat)
        self._choices: dict[int, _Choice] = {}

    @classmethod
    def create(cls, setting: Setting) -> LogprobAnomaly:
        return cls()

    def feed(self, event: Event) -> Finding | None:
        if type(event) is not Logprobs:
            return None
        if len(self._choices) > 64 and event.choice not in self._choices:
            return None
        state = self._choices.setdefault(event.choice, _Choice())
        nulls, identical, clamped, flat = self._limits
        found: Finding | None = None
        for at, value in enumerate(event.values):
            state.seen += 1
            if value is None or value != value:
                state.nulls += state.seen > 1
                if state.nulls >= nulls:
                    found = found or self._found(state, "null", state.nulls, nulls)
                continue
            if value > 0.001:
                found = found or self._found(state, "positive", round(value, 3), 0.001)
            if value <= -9000:
                state.floor += 1
                if state.floor >= clamped and state.floor == state.seen - state.nulls:
                    found = found or self._found(state, "clamped", state.floor, clamped)
            elif value == state.last and value < -1e-3:
                state.same += 1
                if state.same >= identical:
                    found = found or self._found(state, "identical", state.same, identical)
            else:
                state.same = 1
            state.last = value
            top = event.top[at] if at < len(event.top) else ()
            if len(top) > 1 and top[0] is not None and -9000 < top[0] < -8 and len(set(top)) == 1:
                state.flat += 1
                if state.flat >= flat:
                    found = found or self._found(state, "flat", state.flat, flat)
        return found

    def finish(self, ending: Ending) -> Finding | None:
        for state in self._choices.values():
            # A body of few tokens: every one of them null, or all of them alike.
            if state.seen >= 2 and state.nulls and state.nulls == state.seen - 1:
                return self._found(state, "null", state.nulls, self._limits[0])
            if 4 <= state.seen == state.same < self._limits[1]:
                return self._found(state, "identical", state.same, self._limits[1])
            if state.seen == 1 and state.last is not None and state.last <= -9000:
                return self._found(state, "clamped", 1, self._limits[2])
        return None

    def _found(self, state: _Choice, reason: str, value: float, limit: float) -> Finding | None:
        if reason in state.said:
            return None
        state.said.add(reason)
        shape = f"{value} of {state.seen} tokens"
        return Finding(self.name, reason, value, limit, Weight.PROOF, shape)
