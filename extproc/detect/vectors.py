"""Embeddings that say nothing: zeros, or the same vector whatever the input."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from extproc.detect.asked import UNSEEN
from extproc.detect.detector import Ending, Setting
from extproc.detect.finding import Finding, Weight
from extproc.wire import Event, Form, RequestFacts, Vector


class Vectors:
    """``zero``: every value is 0. ``tiny``, ``huge``: none is above 1e-30, or
    one is above a million: no hidden state of a model that works is there.
    ``empty``: a vector without values. ``constant``: all its values are the same.
    ``identical`` (vectors): bit-identical vectors for different inputs. Proof when the request
    shows that the inputs differ, else a hint: the same text may have been embedded twice.
    ``count``: other than one vector an input. ``dimensions``: vectors of different length.
    Source: reported and recorded NaN, zero-weight and padding faults of embedding servers.
    """

    __slots__ = ("_count", "_dimensions", "_done", "_limits", "_request", "_same", "_seen")

    name: ClassVar[str] = "vectors"
    reads = (Vector,)

    REMEMBERED = 256
    """Vectors whose hash is kept to find equal ones."""

    def __init__(
        self, tiny: float = 1e-30, huge: float = 1e6, request: RequestFacts = UNSEEN
    ) -> None:
        self._limits = (tiny, huge)
        self._request = request
        self._seen: set[int] = set()
        self._count = self._same = 0
        self._dimensions: int | None = None
        self._done = False

    @classmethod
    def create(cls, setting: Setting) -> Vectors:
        return cls(request=setting.request)

    def feed(self, event: Event) -> Finding | None:
        if type(event) is not Vector:
            return None
        self._count += 1
        if len(self._seen) < self.REMEMBERED:
            mark = hash(event.data)
            self._same += mark in self._seen
            self._seen.add(mark)
        if self._done or event.nulls or event.non_finite:
            return None
        values = event.array
        where = f"vector {event.position}"
        if not values.size:
            if event.form is Form.SPARSE:
                return None  # a text without known words has no weights
            return self._found("empty", 0, 1, where)
        peak = float(np.abs(values).max())
        if peak == 0.0:
            return self._found("zero", values.size, values.size, where)
        tiny, huge = self._limits
        if peak > huge:
            return self._found("huge", peak, huge, where)
        if peak < tiny:
            return self._found("tiny", peak, tiny, where)
        if values.size >= 16 and event.form is not Form.SPARSE and float(np.ptp(values)) == 0.0:
            return self._found("constant", values.size, 16, where)
        if event.form is not Form.SPARSE:
            dimensions = event.shape[-1]
            if self._dimensions is not None and dimensions != self._dimensions:
                return self._found("dimensions", dimensions, self._dimensions, where)
            self._dimensions = dimensions
        return None

    def finish(self, ending: Ending) -> Finding | None:
        if self._done or not self._count:
            return None
        request = self._request
        kept = min(self._count, self.REMEMBERED)
        if self._same:
            different = len(self._seen)
            if request.inputs == self._count <= self.REMEMBERED:
                if different < request.distinct_inputs:
                    return self._found(
                        "identical", self._same, 0, f"{different} different of {kept}"
                    )
            elif not request.inputs and different == 1 and kept >= 2:
                return Finding(
                    self.name, "identical", self._same, 0, Weight.HINT, f"1 different of {kept}"
                )
        if request.inputs and self._count != request.inputs:
            return self._found("count", self._count, request.inputs, f"{request.inputs} inputs")
        return None

    def _found(self, reason: str, value: float, limit: float, shape: str) -> Finding:
        self._done = True
        return Finding(self.name, reason, value, limit, Weight.PROOF, shape)
