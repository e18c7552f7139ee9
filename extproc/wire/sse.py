"""Server-sent events: bytes in any pieces -> messages.

Follows the event-stream format of the WHATWG HTML standard: CR, LF and CRLF end lines,
a leading BOM is skipped, lines that begin with a colon are comments, one space after the
field's colon is dropped, several ``data`` lines join with LF, a blank line dispatches.
Two departures, because a guard must not overlook what a lenient client would read: the
buffered last message is dispatched by ``finish`` even when its blank line never came,
and bytes stay bytes (UTF-8 is checked where JSON is parsed).

Cost: each byte is looked at a bounded number of times. Only the unfinished message is kept,
at most ``limit`` bytes of it: a longer one is dropped whole and counted, and reading goes on
with the next.
"""

from __future__ import annotations

from typing import NamedTuple


class Message(NamedTuple):
    """One dispatched event: its ``event`` field (empty when unnamed) and its data."""

    event: bytes
    data: bytes


class SSEParser:
    """Incremental parser. ``limit`` bounds one message in bytes."""

    __slots__ = (
        "_data",
        "_event",
        "_limit",
        "_overlong",
        "_pending",
        "_size",
        "_skip_lf",
        "_started",
        "dropped",
    )

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending: list[bytes] = []  # pieces of the unfinished line, none holding a line end
        self._data: list[bytes] = []  # finished data lines of the unfinished message
        self._size = 0  # bytes in _pending and _data together
        self._overlong = False  # the unfinished message passed the limit: drop what it still brings
        self._event = b""
        self._skip_lf = False  # the last byte seen was a CR, which has ended its line
        self._started = False
        self.dropped = 0
        """Messages left out because they passed the limit."""

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
            if self._pending:
                self._pending.append(line)
                line = b"".join(self._pending)
                self._pending.clear()
                self._size = sum(map(len, self._data))
            self._line(line, out)
        if tail:
            self._grow(tail)
        return out

    def finish(self) -> list[Message]:
        """The message that the stream's end cut short, if any of its data had arrived."""
        out: list[Message] = []
        if self._pending:
            line = b"".join(self._pending)
            self._pending.clear()
            self._line(line, out)
        self._line(b"", out)
        return out

    @property
    def unfinished(self) -> bool:
        """Whether bytes are waiting for the rest of their message."""
        return bool(self._pending or self._data or self._overlong)

    def _grow(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            self._overlong = True
            self._pending.clear()
            self._data.clear()
            self._size = 0
        if not self._overlong:
            self._pending.append(piece)
        elif not self._pending:
            self._pending.append(b":")  # stands for the line: not blank, and a comment

    def _line(self, line: bytes, out: list[Message]) -> None:
        if not self._started:
            self._started = True
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            self._dispatch(out)
        elif line.startswith(b"data:"):
            value = line[6:] if line[5:6] == b" " else line[5:]
            if self._size + len(value) > self._limit:
                self._overlong = True
            if self._overlong:
                self._data.clear()
                self._size = 0
            else:
                self._size += len(value)
                self._data.append(value)
        elif line.startswith(b"event:"):
            self._event = line[7:] if line[6:7] == b" " else line[6:]
        elif line == b"data" and not self._overlong:
            self._data.append(b"")

    def _dispatch(self, out: list[Message]) -> None:
        if self._overlong:
            self._overlong = False
            self.dropped += 1
        elif self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            out.append(Message(self._event, data))
        self._data.clear()
        self._size = 0
        self._event = b""
