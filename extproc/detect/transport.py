"""What kept a response from being read: recorded beside the verdict, no proof by itself."""

from __future__ import annotations

from extproc.detect.detector import Ending
from extproc.detect.finding import Finding, Weight
from extproc.wire import Event, Failure, Layer, Malformed, TooLarge

_WEIGHTS = {
    Layer.ENCODING: Weight.NOTE,
    Layer.FRAMING: Weight.HINT,
    Layer.UTF8: Weight.HINT,
    Layer.JSON: Weight.HINT,
    Layer.SCHEMA: Weight.NOTE,
}


class Transport:
    """Turns malformed bytes, bounds and error objects into findings, one of each reason."""

    __slots__ = ("_said",)

    name = "transport"

    def __init__(self) -> None:
        self._said: set[str] = set()

    def feed(self, event: Event) -> Finding | None:
        if type(event) is Malformed:
            return self._once(f"malformed_{event.layer}", _WEIGHTS[event.layer], event.place)
        if type(event) is TooLarge:
            return self._once(f"too_large_{event.what}", Weight.NOTE, f"limit {event.limit}")
        if type(event) is Failure:
            return self._once("error_in_success", Weight.HINT, event.code)
        return None

    def finish(self, ending: Ending) -> Finding | None:
        return None

    def _once(self, reason: str, weight: Weight, shape: str) -> Finding | None:
        if reason in self._said:
            return None
        self._said.add(reason)
        return Finding(self.name, reason, 1, 1, weight, shape)
