"""The way from a body's bytes to events: content-encoding, framing, JSON, dialect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from extproc.wire import encoding
from extproc.wire.dialects import Dialect
from extproc.wire.events import Event, Layer, Malformed, Terminator, TooLarge
from extproc.wire.json import Unreadable, loads
from extproc.wire.lines import LineParser
from extproc.wire.sse import SSEParser


class Framing(StrEnum):
    """How documents stand in the body."""

    JSON = "json"
    SSE = "sse"
    NDJSON = "ndjson"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one response's reading. All in bytes but the last.

    ``expansion`` is how many times the bytes on the wire a compressed body may become
    (beyond ``body``, which is always allowed). Deflate cannot exceed 1032; real text stays
    below 20.
    """

    body: int = 1 << 20
    message: int = 64 << 10
    expansion: int = 100


class Reader:
    """Sans-IO reader of one response body. Nothing that the body holds makes it raise."""

    __slots__ = (
        "_body",
        "_decoding",
        "_dialect",
        "_dropped",
        "_framing",
        "_limits",
        "_read",
        "_size",
        "_stopped",
    )

    def __init__(
        self,
        dialect: Dialect,
        framing: Framing,
        content_encoding: str = "",
        limits: Limits = Limits(),
    ) -> None:
        self._dialect = dialect
        self._framing = framing
        self._limits = limits
        self._decoding: encoding.Decoding | None = None
        self._stopped = False
        self._body: list[bytes] = []
        self._size = 0
        self._dropped = 0
        self._read: SSEParser | LineParser | None = None
        if framing is Framing.SSE:
            self._read = SSEParser(limits.message)
        elif framing is Framing.NDJSON:
            self._read = LineParser(limits.message)
        if content_encoding:
            decoding = encoding.Decoding(content_encoding, limits.body, limits.expansion)
            self._decoding = decoding if decoding else None

    @property
    def ended(self) -> bool:
        """Whether nothing more will be read: a bound, undecodable bytes, or ``finish``."""
        return self._stopped

    def feed(self, data: bytes) -> list[Event]:
        """Events of the documents that ``data`` completes."""
        out: list[Event] = []
        if self._stopped or not data:
            return out
        if self._decoding is None:
            self._feed(data, out)
            return out
        try:
            for piece in self._decoding.feed(data):
                if not self._feed(piece, out):
                    break
        except encoding.DecodeError as error:
            self._stop(Malformed(Layer.ENCODING, str(error)), out)
        except encoding.Expansion:
            self._stop(TooLarge("expansion", self._limits.expansion), out)
        return out

    def finish(self) -> list[Event]:
        """Events of what the end of the body completes or cuts short."""
        out: list[Event] = []
        if self._stopped:
            return out
        self._stopped = True
        if self._decoding is not None and not self._decoding.complete:
            out.append(Malformed(Layer.ENCODING, "the compressed body ends early"))
        read = self._read
        if read is None:
            body = b"".join(self._body)
            self._body.clear()
            if body.strip():
                self._document(body, out, lambda document: self._dialect.body(document, out))
            return out
        if read.unfinished:
            out.append(Malformed(Layer.FRAMING, "the last message has no end"))
        if isinstance(read, SSEParser):
            for message in read.finish():
                self._message(message.event, message.data, out)
        else:
            for line in read.finish():
                self._message(b"", line, out)
        self._count_dropped(read.dropped, out)
        return out

    def _feed(self, data: bytes, out: list[Event]) -> bool:
        """Reads decoded bytes; False when a bound ended the reading."""
        read = self._read
        if read is None:
            self._size += len(data)
            if self._size > self._limits.body:
                self._stop(TooLarge("body", self._limits.body), out)
                return False
            self._body.append(data)
            return True
        if isinstance(read, SSEParser):
            for message in read.feed(data):
                self._message(message.event, message.data, out)
        else:
            for line in read.feed(data):
                self._message(b"", line, out)
        if read.dropped != self._dropped:
            self._count_dropped(read.dropped, out)
        return True

    def _message(self, event: bytes, data: bytes, out: list[Event]) -> None:
        if data == b"[DONE]":
            out.append(Terminator())
            return
        self._document(data, out, lambda document: self._dialect.chunk(event, document, out))

    def _document(self, data: bytes, out: list[Event], read: Callable[[object], None]) -> None:
        try:
            document = loads(data, out)
        except Unreadable as error:
            out.append(Malformed(Layer.JSON, error.place))
            return
        read(document)

    def _count_dropped(self, dropped: int, out: list[Event]) -> None:
        out.extend([TooLarge("message", self._limits.message)] * (dropped - self._dropped))
        self._dropped = dropped

    def _stop(self, event: Event, out: list[Event]) -> None:
        self._stopped = True
        self._body.clear()
        out.append(event)
