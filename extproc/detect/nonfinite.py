"""Values that are no finite numbers: where NaN surfaces in the body."""

from __future__ import annotations

from typing import ClassVar

from extproc.detect.detector import Ending, Setting
from extproc.detect.finding import Finding, Weight
from extproc.wire import Cause, Event, Failure, NonFinite, Scores, Vector


class NonFiniteValues:
    """``literal``: NaN or Infinity written into JSON, which no JSON value may be.
    ``vector``: null, NaN or infinity inside an embedding, also hidden in base64.
    ``score``: a rerank score that is null or NaN.
    ``admitted``: the engine's own error says that a value was not finite, or its grammar or
    accelerator failed ("Out of range float values are not JSON compliant" is a NaN that met a
    strict encoder).
    Source: recorded vLLM, llama.cpp and llama-cpp-python responses with a NaN weight.
    """

    __slots__ = ("_done",)

    name: ClassVar[str] = "nonfinite"
    reads = (NonFinite, Vector, Scores, Failure)

    def __init__(self) -> None:
        self._done = False

    @classmethod
    def create(cls, setting: Setting) -> NonFiniteValues:
        return cls()

    def feed(self, event: Event) -> Finding | None:
        if self._done:
            return None
        if type(event) is NonFinite:
            return self._found("literal", 1, f"{event.literal} at {event.path}")
        if type(event) is Vector:
            if bad := event.nulls + event.non_finite:
                return self._found("vector", bad, f"{bad} values of vector {event.position}")
        elif type(event) is Scores:
            if bad := sum(value is None or value != value for value in event.values):
                return self._found("score", bad, f"{bad} of {len(event.values)} scores")
        elif type(event) is Failure and event.cause is Cause.NON_FINITE:
            return self._found("admitted", 1, event.cause)
        return None

    def finish(self, ending: Ending) -> Finding | None:
        return None

    def _found(self, reason: str, value: int, shape: str) -> Finding:
        self._done = True
        return Finding(self.name, reason, value, 1, Weight.PROOF, shape)
