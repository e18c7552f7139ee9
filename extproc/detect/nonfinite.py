"""Values that are no finite numbers: where NaN surfaces in the body."""

from __future__ import annotations

from extproc.detect.detector import Ending
from extproc.detect.finding import Finding, Weight
from extproc.wire import Event, Logprobs, NonFinite


class NonFiniteValues:
    """``literal``: NaN or Infinity written into JSON, which no JSON value may be.

    ``null_logprob``: a generated token without a log probability. The first token may lack one
    (under echo, nothing precedes it); a later one has none only when the logits were NaN, which
    JSON encoders write as null. Source: recorded vLLM, llama.cpp and llama-cpp-python responses
    with a NaN weight, where every value is null.
    """

    __slots__ = ("_done", "_nulls", "_values")

    name = "nonfinite"

    def __init__(self, nulls: int = 2) -> None:
        self._nulls = nulls
        self._values: dict[
            int, tuple[int, int]
        ] = {}  # choice -> (log probabilities, nulls past the first)
        self._done = False

    def feed(self, event: Event) -> Finding | None:
        if self._done:
            return None
        if type(event) is NonFinite:
            self._done = True
            return Finding(
                self.name, "literal", 1, 1, Weight.PROOF, f"{event.literal} at {event.path}"
            )
        if type(event) is Logprobs:
            seen, nulls = self._values.get(event.choice, (0, 0))
            nulls += event.values.count(None)
            if not seen and event.values and event.values[0] is None:
                nulls -= 1
            self._values[event.choice] = (seen + len(event.values), nulls)
            if nulls >= self._nulls:
                self._done = True
                return Finding(
                    self.name,
                    "null_logprob",
                    nulls,
                    self._nulls,
                    Weight.PROOF,
                    f"{nulls} null logprobs",
                )
        return None

    def finish(self, ending: Ending) -> Finding | None:
        return None
