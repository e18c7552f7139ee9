"""How documents stand in a body, and telling it from the body's first bytes.

The content-type only proposes a framing: proxies and engines get it wrong (an error object under
text/event-stream, a stream under application/json), and what a client would read must be read.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

_SPACE = b" \t\r\n"

BLANK = _SPACE + b"\xef\xbb\xbf"
"""Bytes that may stand before a body and say nothing: blanks, and a UTF-8 byte order mark."""

SNIFFED = 64
"""Bytes looked at, at most; what they leave open is as declared."""

_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
"""How the first line of an event stream may begin. No JSON begins like any of them."""


class Framing(StrEnum):
    """How documents stand in the body."""

    JSON = "json"
    """One JSON document is the body."""

    SSE = "sse"
    NDJSON = "ndjson"
    TEXT = "text"
    """The body is the text itself."""


class Message(NamedTuple):
    """One message of a stream: its ``event`` field (empty when it has none) and its data.

    ``whole`` is False when the message passed the parser's limit: ``data`` is then its first
    bytes only, at most HEAD of them.
    """

    event: bytes
    data: bytes
    whole: bool = True


HEAD = 512
"""Bytes kept of a message that is dropped for its size; enough to tell what it was."""


def sniff(head: bytes, declared: Framing, final: bool) -> Framing | None:
    """The framing of a body that begins with ``head``; None when more bytes are needed to tell.

    ``head`` is without leading BLANK. With ``final`` there are no more bytes.
    """
    final = final or len(head) >= SNIFFED
    head = head[:SNIFFED]
    if not head:
        return declared if final else None
    first = head[0]
    if first in b"{[":
        return _bracketed(head, declared, final)
    for field in _FIELDS:
        if head.startswith(field):
            return Framing.SSE if declared is not Framing.TEXT else _prose(head, final)
        if field.startswith(head) and not final:
            return None
    return declared


def _bracketed(head: bytes, declared: Framing, final: bool) -> Framing | None:
    rest = head[1:].lstrip(_SPACE)
    if declared is Framing.TEXT:  # "[Music]" is a text, {"text": ...} is not
        if head[0] == ord("[") or (rest and rest[0] not in b'"}'):
            return Framing.TEXT
        return Framing.JSON if rest or final else None
    if declared is Framing.NDJSON:
        if not rest and not final:
            return None
        spread = b"\n" in head[1 : len(head) - len(rest)]  # pretty-printed: one document
        return Framing.JSON if spread or head[0] == ord("[") else Framing.NDJSON
    return Framing.JSON


def _prose(head: bytes, final: bool) -> Framing | None:
    """Whether what is declared a text is an event stream: "id: ..." may begin a sentence."""
    if not head.startswith(b"data:"):
        return Framing.TEXT
    rest = head[5:].lstrip(b" ")
    if not rest and not final:
        return None
    return Framing.SSE if rest[:1] in (b"{", b"[") else Framing.TEXT
