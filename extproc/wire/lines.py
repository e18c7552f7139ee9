"""Newline-delimited JSON: bytes in any pieces -> lines without their ends; blank lines dropped."""

from __future__ import annotations


class LineParser:
    """Incremental splitter. ``limit`` bounds a line in bytes; a longer one is dropped, counted."""

    __slots__ = ("_limit", "_overlong", "_pending", "_size", "dropped")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending: list[bytes] = []
        self._size = 0
        self._overlong = False
        self.dropped = 0
        """Lines left out because they passed the limit."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Lines completed by ``chunk``."""
        out: list[bytes] = []
        pieces = chunk.split(b"\n")
        tail = pieces.pop()
        for piece in pieces:
            self._grow(piece)
            self._end(out)
        if tail:
            self._grow(tail)
        return out

    def finish(self) -> list[bytes]:
        """The last line, when no newline ended it."""
        out: list[bytes] = []
        self._end(out)
        return out

    @property
    def unfinished(self) -> bool:
        """Whether bytes are waiting for the rest of their line."""
        return bool(self._pending or self._overlong)

    def _grow(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            self._overlong = True
            self._pending.clear()
        elif piece:
            self._pending.append(piece)

    def _end(self, out: list[bytes]) -> None:
        if self._overlong:
            self.dropped += 1
        elif line := b"".join(self._pending).strip():
            out.append(line)
        self._pending.clear()
        self._size = 0
        self._overlong = False
