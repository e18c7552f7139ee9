"""Relevance scores that rank nothing."""

from __future__ import annotations

from typing import ClassVar

from extproc.detect.asked import UNSEEN
from extproc.detect.detector import Ending, Setting
from extproc.detect.finding import Finding, Weight
from extproc.wire import Event, RequestFacts, Scores


class ScoreAnomaly:
    """``equal`` (documents): every document has exactly the same score. Proof when the request
    shows that the documents differ, or from "many" documents on; else a hint.
    ``half``: all scores are 0.5, the logistic of a zero logit.
    ``count``: more scores than documents.
    Source: reported rerank faults (all 0.5, all null); float scores of two different documents
    are equal only by such a fault.
    """

    __slots__ = ("_many", "_request", "_values")

    name: ClassVar[str] = "scores"
    reads = (Scores,)

    def __init__(self, many: int = 4, request: RequestFacts = UNSEEN) -> None:
        self._many = many
        self._request = request
        self._values: list[float] = []

    @classmethod
    def create(cls, setting: Setting) -> ScoreAnomaly:
        return cls(request=setting.request)

    def feed(self, event: Event) -> Finding | None:
        if type(event) is Scores and len(self._values) < 4096:
            self._values.extend(v for v in event.values if v is not None and v == v)
        return None

    def finish(self, ending: Ending) -> Finding | None:
        values, request = self._values, self._request
        count = len(values)
        if count < 2:
            return None
        if request.documents and count > request.documents:
            return self._found("count", count, request.documents, Weight.PROOF)
        if len(set(values)) == 1 and request.distinct_documents != 1:
            half = abs(values[0] - 0.5) < 1e-6
            differ = request.distinct_documents > 1
            # Exactly 0 or 1 is what saturated scores round to.
            saturated = values[0] in (0.0, 1.0) and not differ
            proof = (half or differ or count >= self._many) and not saturated
            weight = Weight.PROOF if proof else Weight.HINT
            return self._found("half" if half else "equal", count, 2, weight)
        return None

    def _found(self, reason: str, value: int, limit: int, weight: Weight) -> Finding:
        return Finding(self.name, reason, value, limit, weight, f"{len(self._values)} scores")
