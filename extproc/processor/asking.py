"""The request phase, if Envoy sends it: what was asked helps to judge what is answered.

The shipped configuration sends none of it (``request_header_mode: SKIP``): prompts then never
leave Envoy. With ``request_body_mode: STREAMED`` the prompt is looked at while it passes, is never
changed, and is forgotten when the answer's headers come.
"""

from __future__ import annotations

from typing import Any

import orjson

from extproc.processor.facts import header, number
from extproc.wire import RequestFacts


class Asking:
    """One request as far as it has been seen. ``limit``: bytes of the body that are kept."""

    __slots__ = ("_body", "_limit", "_method", "path", "size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._method = ""
        self._body = bytearray()
        self.path = ""
        self.size = -1
        """Bytes of the request's body, -1 when not known."""

    def headers(self, message: Any) -> None:
        """Takes the request's headers."""
        self._method = header(message, ":method")
        self.path = header(message, ":path")
        self.size = number(header(message, "content-length"), -1)

    def body(self, data: bytes) -> None:
        """Takes a piece of the request's body; one that grows past the limit is not kept."""
        if self._limit and len(self._body) + len(data) <= self._limit:
            self._body += data
        else:
            self._limit = 0
            self._body = bytearray()

    def facts(self, path: str) -> RequestFacts | None:
        """What is known of the request; None when nothing of its body was seen."""
        if not self._body:
            return None
        try:
            document = orjson.loads(self._body)
        except orjson.JSONDecodeError:
            return None
        finally:
            self._body = bytearray()
        return RequestFacts.parse(self._method, path or self.path, document)
