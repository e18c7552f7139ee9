"""Rerank and score: Cohere, Jina, Voyage, TEI, vLLM, NIM."""

from __future__ import annotations

from typing import Any

from extproc.wire.dialects.base import Dialect, failure, integer, number, usage
from extproc.wire.events import Event, Scores

_LISTS = ("results", "data", "rankings")
_SCORES = ("relevance_score", "score", "logit")


class Rerank(Dialect):
    """Never streamed; a chunk is read as a body."""

    __slots__ = ()

    def chunk(self, event: bytes, document: Any, out: list[Event]) -> None:
        self.body(document, out)

    def body(self, document: Any, out: list[Event]) -> None:
        if type(document) is dict:
            failure(document, out)
            for name in _LISTS:
                if type(document.get(name)) is list:
                    self._scores(document[name], out)
            usage(document, out)
        elif type(document) is list:
            self._scores(document, out)

    def _scores(self, items: list[Any], out: list[Event]) -> None:
        indices: list[int] = []
        values: list[float | None] = []
        for place, item in enumerate(items):
            if type(item) is dict:
                for field in _SCORES:
                    if field in item:
                        indices.append(integer(item.get("index"), place))
                        values.append(number(item[field]))
                        break
            elif item is None or type(item) in (int, float):  # TEI /similarity
                indices.append(place)
                values.append(number(item))
        if values:
            out.append(Scores(tuple(indices), tuple(values)))
