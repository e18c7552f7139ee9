"""The way from a body's bytes to events: content-encoding, framing, JSON, dialect."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from extproc.wire import encoding
from extproc.wire.dialects import Dialect
from extproc.wire.events import Ended, Event, Layer, Malformed, Terminator, TooLarge, Unterminated
from extproc.wire.framing import BLANK, Framing, Message, sniff
from extproc.wire.json import Unreadable, lenient, loads
from extproc.wire.lines import LineParser
from extproc.wire.sse import SSEParser
from extproc.wire.template import Template, learn

_TEMPLATES = 8
"""Times that a stream's template is looked for: at its start, and when its channel changes."""


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
    """Sans-IO reader of one response body. Nothing that the body holds makes it raise.

    ``framing`` is what the headers promise; the first bytes may correct it. The constructor
    raises UnknownEncoding for a content-encoding that cannot be decoded.
    """

    __slots__ = (
        "_body",
        "_decoding",
        "_dialect",
        "_limits",
        "_parser",
        "_sniffing",
        "_stopped",
        "_template",
        "_templates",
        "_terminated",
        "framing",
    )

    def __init__(
        self,
        dialect: Dialect,
        framing: Framing,
        content_encoding: str = "",
        limits: Limits = Limits(),
    ) -> None:
        self._dialect = dialect
        self._limits = limits
        self._decoding: encoding.Decoding | None = None
        self._stopped = False
        self._sniffing = True
        self._terminated = False
        self._template: Template | None = None
        self._templates = 0
        self._body = bytearray()  # of an unstreamed body; while sniffing, the first bytes
        self._parser: SSEParser | LineParser | None = None
        self.framing = framing
        """How the body is framed: as declared, until its first bytes have been seen."""
        if content_encoding:
            decoding = encoding.Decoding(content_encoding, limits.body, limits.expansion)
            self._decoding = decoding if decoding else None

    @property
    def stopped(self) -> bool:
        """Whether nothing more will be read: a bound was passed, or the body was finished."""
        return self._stopped

    def feed(self, data: bytes) -> list[Event]:
        """Events of the documents that ``data`` completes."""
        out: list[Event] = []
        if self._stopped or not data:
            return out
        if self._decoding is None:
            template, parser = self._template, self._parser
            short = len(data) <= self._limits.message  # hence each message in it
            if template is not None and short and type(parser) is SSEParser and parser.between:
                data = template.read(data, out)
            if data:
                self._feed(data, out)
            return out
        try:
            for piece in self._decoding.feed(data):
                self._feed(piece, out)
                if self.stopped:
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
        if self._decoding is not None and not self._decoding.complete:
            out.append(Malformed(Layer.ENCODING, "the compressed body ends early"))
        if self._sniffing:
            self._sniff(b"", True, out)
        parser = self._parser
        if parser is None:
            body = bytes(self._body)
            self._body.clear()
            self._whole(body, out)
        else:
            self._rest(parser, out)
        self._stopped = True
        dialect = self._dialect.chosen
        streamed = self._parser is not None
        if streamed and dialect.terminator and not (self._terminated or dialect.terminated):
            out.append(Unterminated(dialect.terminator))
        out.append(Ended(streamed, dialect.finishes))
        return out

    def _feed(self, data: bytes, out: list[Event]) -> None:
        if self._sniffing:
            self._sniff(data, False, out)
            return
        parser = self._parser
        if parser is not None:
            self._messages(parser.feed(data), out)
        elif len(self._body) + len(data) > self._limits.body:
            self._stop(TooLarge("body", self._limits.body), out)
        else:
            self._body += data

    def _sniff(self, data: bytes, final: bool, out: list[Event]) -> None:
        self._body += data
        start = bytes(self._body).lstrip(BLANK)
        framing = sniff(start, self.framing, final)
        self._body.clear()
        if framing is None:
            self._body += start
            return
        if framing is Framing.NDJSON and not self._dialect.lines:
            framing = Framing.JSON  # more likely one document; _whole tells
        self._sniffing = False
        self.framing = framing
        if framing is Framing.SSE:
            self._parser = SSEParser(self._limits.message)
        elif framing is Framing.NDJSON:
            self._parser = LineParser(self._limits.message)
        if start:
            self._feed(start, out)

    def _messages(self, messages: list[Message], out: list[Event]) -> None:
        dialect = self._dialect
        for event, data, whole in messages:
            if not whole:
                if not dialect.overlong(event, data, out):
                    out.append(TooLarge("message", self._limits.message))
                continue
            try:
                document = orjson.loads(data)
            except orjson.JSONDecodeError:
                if data.startswith(b"[DONE]"):
                    self._terminated = True
                    out.append(Terminator())
                    continue
                if not data or data.isspace():  # a keep-alive
                    continue
                try:
                    document = lenient(data, out)
                except Unreadable as error:
                    out.append(Malformed(Layer.JSON, error.place))
                    continue
            before = len(out)
            dialect.chunk(event, document, out)
            if len(out) == before + 1 and self._templates < _TEMPLATES:
                template = self._template
                if template is None or not template.makes(out[before]):
                    self._templates += 1
                    self._template = learn(dialect, event, data, out[before:]) or template

    def _rest(self, parser: SSEParser | LineParser, out: list[Event]) -> None:
        cut = parser.unfinished
        last: list[Event] = []
        messages = parser.finish()
        self._messages(messages, last)
        unreadable = any(type(e) is Malformed and e.layer is Layer.JSON for e in last)
        if cut and (unreadable or not messages):
            out.append(Malformed(Layer.FRAMING, "the body ends inside a message"))
        out.extend(last)

    def _whole(self, body: bytes, out: list[Event]) -> None:
        if not body or body.isspace():
            return
        if self.framing is Framing.TEXT:
            try:
                text = body.decode()
            except UnicodeDecodeError as error:
                out.append(Malformed(Layer.UTF8, f"byte {error.start}"))
                text = body.decode(errors="replace")
            self._dialect.body(text, out)
            return
        try:
            document = loads(body, out)
        except Unreadable as error:
            parser = self._several(body)
            if parser is None:
                out.append(Malformed(Layer.JSON, error.place))
                return
            self.framing = Framing.NDJSON
            self._parser = parser
            self._messages(parser.feed(body), out)
            self._rest(parser, out)
            return
        self._dialect.body(document, out)

    def _several(self, body: bytes) -> LineParser | None:
        """A parser for a body that is no JSON document but begins with a line that is one."""
        line, newline, _ = body.partition(b"\n")
        if not newline:
            return None
        try:
            loads(line, [])
        except Unreadable:
            return None
        return LineParser(self._limits.message)

    def _stop(self, event: Event, out: list[Event]) -> None:
        self._stopped = True
        self._body = bytearray()
        self._parser = None
        out.append(event)
