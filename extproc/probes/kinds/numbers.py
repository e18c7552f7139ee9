"""Numbers beside the text: log probabilities and embeddings that a healthy engine cannot give."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, ClassVar

from extproc.probes.discovery import Support, Way
from extproc.probes.kinds.base import (
    Judgement,
    Outcome,
    Probe,
    Request,
    Room,
    Skip,
    chat_request,
    failed,
    passed,
)
from extproc.probes.logprobs import TokenLogprob
from extproc.probes.reply import Reply

TEXT = "The sun rises in the east and sets in the west, and at noon it stands in the south."

ALIKE = 1e-6
"""Two log probabilities closer than this are the same number."""


class LogProbabilities(Probe):
    """By the best way that the server offers: none is missing (NaN), not all are the same, and
    the alternatives are not all equally likely (uniform logits, as zeroed weights give)."""

    name: ClassVar[str] = "logprobs"
    title: ClassVar[str] = "log probabilities"

    def requests(self, room: Room) -> list[Request]:
        way = self.way(room)
        if way is Way.CHAT:
            return [chat_request(room, TEXT, 12, logprobs=True, top_logprobs=5)]
        text = room.padding(len(TEXT) + 120)
        text = f"{text}\n\n{TEXT}" if text else TEXT
        body: dict[str, Any] = {"model": room.model, "prompt": text}
        body |= {"max_tokens": 12, "temperature": 0}
        path = "/v1/completions"
        if way is Way.NATIVE:
            path = "/completion"
            body = {"prompt": text, "n_predict": 12, "temperature": 0, "n_probs": 5}
        elif way is Way.PROMPT:
            body |= {"prompt_logprobs": 1, "logprobs": 5}
        else:
            body |= {"logprobs": 5} | ({"echo": True} if way is Way.ECHO else {})
        size = len(json.dumps(body))
        room.fits(size, 12)
        return [Request(path, body, size, 12, plain={**body, "prompt": TEXT})]

    def way(self, room: Room) -> Way:
        """The way that is taken. Raises Skip."""
        capabilities = room.capabilities
        if (way := capabilities.way) is not None:
            return way
        if capabilities.ways and all(s is Support.NO for s in capabilities.ways.values()):
            raise Skip("the server tells no log probabilities")
        return Way.CHAT

    def check(self, room: Room, replies: list[Reply]) -> Judgement:
        reply, way = replies[0], self.way(room)
        # Nothing stands before the first token of a prompt: it has none.
        lists = [reply.prompt_logprobs[1:], reply.logprobs]
        if not any(lists):
            if room.capabilities.offers(way):
                return failed(self.name, "missing", f"none came by {way.value}")
            return Judgement(Outcome.SKIPPED, f"none come by {way.value}")
        for found in lists:
            if wrong := self._wrong(found):
                return wrong
        count = sum(len(found) for found in lists)
        return passed(f"{count} tokens by {way.value}")

    def _wrong(self, tokens: Sequence[TokenLogprob]) -> Judgement | None:
        count = len(tokens)
        lost = sum(t.logprob is None or math.isnan(t.logprob) for t in tokens)
        if lost:
            said = f"{lost} of {count} tokens have no log probability"
            return failed(self.name, "nan", said, lost, proof=True)
        values = [t.logprob for t in tokens if t.logprob is not None]
        if any(value > 0.001 for value in values):
            said = "a probability above one"
            return failed(self.name, "positive", said, max(values), 0.001, proof=True)
        # Certain tokens are all 0.0; and few tokens may be alike by chance.
        if count >= 4 and max(values) < -ALIKE and max(values) - min(values) < ALIKE:
            said = f"all {count} tokens have the same log probability"
            return failed(self.name, "constant", said, count, 4, proof=True)
        flat = sum(_flat(t) for t in tokens)
        if count >= 4 and flat > count // 2:
            said = f"alternatives of {flat} of {count} tokens are equally likely"
            return failed(self.name, "uniform", said, flat, count // 2, proof=True)
        return None


def _flat(token: TokenLogprob) -> bool:
    values = [value for _, value in token.top if value is not None]
    return len(values) >= 3 and max(values) - min(values) < ALIKE and max(values) < math.log(0.34)


INPUTS = (
    "A cat sleeps on the warm stones of the yard.",
    "Interest rates were raised by a quarter of a percent.",
    "def add(a, b): return a + b",
)


class Embeddings(Probe):
    """Vectors of different texts are finite, not zero, and not the same."""

    name: ClassVar[str] = "embedding"
    title: ClassVar[str] = "embedding"

    def requests(self, room: Room) -> list[Request]:
        if room.capabilities.embeddings is Support.NO:
            raise Skip("the server offers no embeddings")
        body = {"model": room.model, "input": list(INPUTS)}
        padding = room.padding(len(json.dumps(body)))
        if padding:
            body["input"] = [f"{INPUTS[0]}\n{padding}", *INPUTS[1:]]
        size = len(json.dumps(body))
        room.fits(size, 0)
        return [Request("/v1/embeddings", body, size)]

    def check(self, room: Room, replies: list[Reply]) -> Judgement:
        vectors = replies[0].vectors
        if len(vectors) != len(INPUTS):
            return failed(
                self.name, "count", f"{len(vectors)} vectors for {len(INPUTS)} texts", len(vectors)
            )
        for place, vector in enumerate(vectors):
            bad = vector.nulls + vector.non_finite
            if bad:
                said = f"vector {place} has {bad} values that are no numbers"
                return failed(self.name, "nan", said, bad, proof=True)
            if not len(vector.array) or not vector.array.any():
                return failed(self.name, "zeros", f"vector {place} is zero", proof=True)
        if len({vector.data for vector in vectors}) < len(vectors):
            said = "different texts have identical vectors"
            return failed(self.name, "identical", said, proof=True)
        return passed(f"{len(vectors)} vectors of {len(vectors[0].array)} numbers")
