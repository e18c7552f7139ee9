"""Embeddings: OpenAI, TEI, llama.cpp, Ollama, Cohere and vLLM's pooling."""

from __future__ import annotations

from typing import Any

from extproc.wire.dialects.base import Dialect, failure, integer, usage
from extproc.wire.dialects.vector import vector
from extproc.wire.events import Event, Form

_FORMS = {
    "float": None,
    "base64": None,
    "int8": Form.INTEGER,
    "uint8": Form.INTEGER,
    "binary": Form.INTEGER,
    "ubinary": Form.INTEGER,
}
"""Cohere's ``embeddings`` by type; None leaves the form to be seen."""

_FIELDS = ("embedding", "data", "sparse_embedding", "values")


class Embeddings(Dialect):
    """Never streamed; a chunk is read as a body."""

    __slots__ = ()

    def chunk(self, event: bytes, document: Any, out: list[Event]) -> None:
        self.body(document, out)

    def body(self, document: Any, out: list[Event]) -> None:
        if type(document) is list:
            self._list(document, out)
        elif type(document) is dict:
            failure(document, out)
            if type(document.get("data")) is list:
                self._list(document["data"], out)
            if "embedding" in document:
                vector(0, document["embedding"], out)
            several = document.get("embeddings")
            if type(several) is list:
                self._list(several, out)
            elif type(several) is dict:
                for kind, form in _FORMS.items():
                    if type(several.get(kind)) is list:
                        self._list(several[kind], out, form)
            usage(document, out)

    def _list(self, items: list[Any], out: list[Event], form: Form | None = None) -> None:
        if len(items) > 1 and all(item is None or type(item) in (int, float) for item in items):
            vector(0, items, out, form)  # one input, and its vector is the body
            return
        for place, item in enumerate(items):
            if type(item) is dict:
                for field in _FIELDS:
                    if field in item:
                        vector(integer(item.get("index"), place), item[field], out, form)
                        break
            else:
                vector(place, item, out, form)
