"""Newline-delimited JSON: bytes in any pieces -> lines without their ends; blank lines dropped."""

from __future__ import annotations

from extproc.wire.framing import HEAD, Message


class LineParser:
    """Incremental splitter. ``limit`` bounds a line in bytes; a longer one is dropped."""

    __slots__ = ("_head", "_limit", "_overlong", "_pending", "_size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending = bytearray()
        self._size = 0
        self._overlong = False
        self._head = b""  # of the overlong line

    def feed(self, chunk: bytes) -> list[Message]:
        """Lines completed by ``chunk``."""
        out: list[Message] = []
        pieces = chunk.split(b"\n")
        tail = pieces.pop()
        for piece in pieces:
            self._grow(piece)
            self._end(out)
        if tail:
            self._grow(tail)
        return out

    def finish(self) -> list[Message]:
        """The last line, when no newline ended it."""
        out: list[Message] = []
        self._end(out)
        return out

    @property
    def unfinished(self) -> bool:
        """Whether bytes are waiting for the rest of their line."""
        return bool(self._pending or self._overlong)

    def _grow(self, piece: bytes) -> None:
        if self._overlong or not piece:
            return
        self._size += len(piece)
        self._pending += piece
        if self._size > self._limit:
            self._overlong = True
            self._head = bytes(self._pending[: min(HEAD, self._limit)])
            self._pending.clear()

    def _end(self, out: list[Message]) -> None:
        if self._overlong:
            out.append(Message(b"", self._head, False))
            self._head = b""
        elif line := bytes(self._pending).strip():
            out.append(Message(b"", line))
        self._pending.clear()
        self._size = 0
        self._overlong = False
