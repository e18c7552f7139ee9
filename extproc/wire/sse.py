"""Server-sent events: bytes in any pieces -> messages.

Follows the event-stream format of the WHATWG HTML standard: CR, LF and CRLF end lines,
lines that begin with a colon are comments, one space after the field's colon is dropped,
several ``data`` lines join with LF, a blank line dispatches. (A leading BOM is skipped before
the bytes come here.)
Three departures, because a guard must not overlook what a lenient client would read: the
buffered last message is dispatched by ``finish`` even when its blank line never came,
bytes stay bytes (UTF-8 is checked where JSON is parsed), and a line that opens a JSON object
without any field name is a message by itself (Ollama writes its mid-stream error so).

Cost: each byte is looked at a bounded number of times. Only the unfinished message is kept,
at most ``limit`` bytes of it: a longer one is dropped but for its head, and reading goes on
with the next. What is dropped does not depend on how the bytes were cut into pieces.
"""

from __future__ import annotations

from extproc.wire.framing import HEAD, Message

_LINES = 64
"""Data lines kept apart; more are joined, so that many tiny ones cost no more than their bytes."""


class SSEParser:
    """Incremental parser. ``limit`` bounds one message in bytes: its data and its open line."""

    __slots__ = (
        "_data",
        "_early",
        "_event",
        "_head",
        "_limit",
        "_open",
        "_overlong",
        "_pending",
        "_size",
        "_skip_lf",
    )

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending = bytearray()  # the unfinished line
        self._open = False  # a line is unfinished, kept or dropped
        self._data: list[bytes] = []  # finished data lines of the unfinished message
        self._early = bytearray()  # those before them, each with its line end
        self._size = 0  # bytes in _data, with the line ends that will join them
        self._overlong = False  # the unfinished message passed the limit: drop what it still brings
        self._head = b""  # of the overlong message
        self._event = b""
        self._skip_lf = False  # the last byte seen was a CR, which has ended its line

    def feed(self, chunk: bytes) -> list[Message]:
        """Messages completed by ``chunk``."""
        out: list[Message] = []
        if self._skip_lf and chunk:
            self._skip_lf = False
            if chunk[0] == 10:
                chunk = chunk[1:]
        if 13 in chunk:
            self._skip_lf = chunk[-1] == 13
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = chunk.split(b"\n")
        tail = lines.pop()
        for line in lines:
            if self._open:
                line = self._close(line)
            self._line(line, out)
        if tail:
            self._grow(tail)
        return out

    def finish(self) -> list[Message]:
        """The message that the stream's end cut short, if any of its data had arrived."""
        out: list[Message] = []
        if self._open:
            self._line(self._close(b""), out)
        self._dispatch(out)
        return out

    @property
    def between(self) -> bool:
        """Whether the next byte begins a message: nothing of one has arrived."""
        return not (
            self._open
            or self._data
            or self._early
            or self._overlong
            or self._event
            or self._skip_lf
        )

    @property
    def unfinished(self) -> bool:
        """Whether bytes that matter are waiting for the rest of their message."""
        return bool(
            self._data
            or self._early
            or self._overlong
            or (self._pending and not self._pending.startswith(b":"))
        )

    def _grow(self, piece: bytes) -> None:
        self._open = True
        if self._overlong:
            return
        self._pending += piece
        if self._size + len(self._pending) > self._limit:
            self._drop(bytes(self._pending))

    def _close(self, piece: bytes) -> bytes:
        self._open = False
        if self._overlong:
            return b":"  # the end of a line that was dropped: not blank, and a comment
        self._pending += piece
        line = bytes(self._pending)
        self._pending.clear()
        return line

    def _drop(self, line: bytes) -> None:
        self._overlong = True
        if line.startswith(b"data:"):
            self._data.append(line[6:] if line[5:6] == b" " else line[5:])
        elif line.startswith(b"{"):
            self._data.append(line)
        # Half the limit has arrived in any case, so the head does not depend on the pieces.
        self._head = self._joined()[: min(HEAD, self._limit // 2)]
        self._pending.clear()
        self._size = 0

    def _line(self, line: bytes, out: list[Message]) -> None:
        if not line:
            self._dispatch(out)
        elif self._overlong:
            pass
        elif self._size + len(line) > self._limit:
            self._drop(line)
        elif line.startswith(b"data:"):
            value = line[6:] if line[5:6] == b" " else line[5:]
            self._keep(value)
        elif line.startswith(b"event:"):
            self._event = line[7:] if line[6:7] == b" " else line[6:]
        elif line == b"data":
            self._keep(b"")
        elif line.startswith(b"{"):
            self._dispatch(out)
            out.append(Message(b"", line))

    def _keep(self, value: bytes) -> None:
        self._size += len(value) + 1
        self._data.append(value)
        if len(self._data) == _LINES:
            self._early += b"\n".join(self._data) + b"\n"
            self._data.clear()

    def _joined(self) -> bytes:
        """All data lines of the message, which are forgotten here."""
        data = b"\n".join(self._data)
        if self._early:
            data = bytes(self._early + data) if self._data else bytes(self._early[:-1])
            self._early.clear()
        self._data.clear()
        return data

    def _dispatch(self, out: list[Message]) -> None:
        if self._overlong:
            self._overlong = False
            out.append(Message(self._event, self._head, False))
            self._head = b""
        elif self._early or self._data:
            out.append(Message(self._event, self._joined()))
        self._size = 0
        self._event = b""
