"""Content-Encoding: gzip, deflate, br and zstd, decoded incrementally with a bound.

A decoder yields pieces of at most PIECE bytes, so that a few bytes on the wire never become
a large allocation, and the total is bounded by what arrived: a bomb ends the reading, not us.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

import brotli

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PIECE = 65536
"""Decoded bytes handed on at a time, and the most that one step may allocate."""

STEP = 16384
"""Coded bytes taken at a time: what a decoder leaves is copied, and is then never much."""

FEW, SHORT = 1024, 64
"""A body may have FEW members (or frames), and one more for each SHORT bytes. A new decoder costs
what decoding hundreds of bytes does, and an empty member has nine."""

_ZSTD_WINDOW_LOG_MAX = 23
"""8 MiB, the window that RFC 9659 allows for zstd as a content encoding."""


class DecodeError(Exception):
    """The bytes are not what the header says. The message names the encoding."""


class UnknownEncoding(Exception):
    """A content-encoding that cannot be read here."""


class Expansion(Exception):
    """The body expands past the bound."""


class Decoder(Protocol):
    """One content coding."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Decoded pieces for ``data``. Raises DecodeError."""

    @property
    def complete(self) -> bool:
        """Whether the coded stream has reached its own end."""


class _Members:
    """Counts the coded streams that one body consists of."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._bytes = self._members = 0

    def take(self, data: bytes) -> None:
        """These bytes have arrived."""
        self._bytes += len(data)

    def another(self) -> None:
        """One more begins. Raises DecodeError."""
        self._members += 1
        if self._members > FEW + self._bytes // SHORT:
            raise DecodeError(f"{self._name}: too many members")


class _Zlib:
    """gzip, also in several members; deflate, zlib-wrapped (RFC 9110) or raw, as some send it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._engine: zlib._Decompress | None = None
        self._members = _Members(name)

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._members.take(data)
        try:
            while data:
                if self._engine is None:
                    self._engine = zlib.decompressobj(self._window(data[0]))
                elif self._engine.eof:
                    if self._name != "gzip":
                        return  # bytes past the end: clients ignore them
                    data = data.lstrip(b"\0")  # padding between members
                    if not data:
                        return
                    self._members.another()
                    self._engine = zlib.decompressobj(31)
                engine = self._engine
                piece = b""
                while data or len(piece) == PIECE:  # a full piece may leave output inside zlib
                    piece = engine.decompress(data, PIECE)
                    data = engine.unconsumed_tail
                    if piece:
                        yield piece
                data = engine.unused_data
        except zlib.error as error:
            raise DecodeError(f"{self._name}: {error}") from None

    def _window(self, first: int) -> int:
        if self._name == "gzip":
            return 31
        return 15 if first & 0x0F == 8 else -15  # CM=8 opens a zlib header; raw deflate never does

    @property
    def complete(self) -> bool:
        return self._engine is None or self._engine.eof


class _Brotli:
    def __init__(self) -> None:
        self._engine = brotli.Decompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        engine = self._engine
        if engine.is_finished():
            return  # bytes past the end: clients ignore them
        try:
            # Output may be pending even where more input would be accepted: ask until none comes.
            while piece := engine.process(data, output_buffer_limit=PIECE):
                data = b""
                yield piece
        except brotli.error as error:
            raise DecodeError(f"br: {error}") from None

    @property
    def complete(self) -> bool:
        return bool(self._engine.is_finished())


class _Zstd:
    def __init__(self) -> None:
        self._engine = self._new()
        self._members = _Members("zstd")

    @staticmethod
    def _new() -> zstd.ZstdDecompressor:
        return zstd.ZstdDecompressor(
            options={zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG_MAX}
        )

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._members.take(data)
        try:
            while True:
                if self._engine.eof:  # concatenated frames are one body
                    data = self._engine.unused_data + data
                    if not data:
                        return
                    self._members.another()
                    self._engine = self._new()
                piece = self._engine.decompress(data, max_length=PIECE)
                data = b""
                if piece:
                    yield piece
                elif self._engine.needs_input:
                    return
                if self._engine.eof and not self._engine.unused_data:
                    return
        except zstd.ZstdError as error:
            raise DecodeError(f"zstd: {error}") from None

    @property
    def complete(self) -> bool:
        return bool(self._engine.eof)


_DECODERS: dict[str, Callable[[], Decoder]] = {
    "gzip": partial(_Zlib, "gzip"),
    "x-gzip": partial(_Zlib, "gzip"),
    "deflate": partial(_Zlib, "deflate"),
    "br": _Brotli,
    "zstd": _Zstd,
}


def _decoder(name: str) -> Decoder:
    try:
        make = _DECODERS[name]
    except KeyError:
        raise UnknownEncoding(name) from None
    return make()


class Decoding:
    """The codings of one body, outermost first, and the bound on what they may become.

    ``floor`` bytes are always allowed; beyond it the body may be ``ratio`` times the bytes
    received so far.
    """

    def __init__(self, header: str, floor: int, ratio: int) -> None:
        names = [
            n for part in header.split(",") if (n := part.strip().lower()) not in ("", "identity")
        ]
        if len(names) > 2:  # no server chains more; each level multiplies what a bomb can do
            raise UnknownEncoding(header)
        self._decoders = [_decoder(name) for name in reversed(names)]
        self._floor = floor
        self._ratio = ratio
        self._received = 0
        self._produced = 0

    def __bool__(self) -> bool:
        return bool(self._decoders)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Decoded pieces. Raises DecodeError and Expansion."""
        self._received += len(data)
        allowed = max(self._floor, self._ratio * self._received)
        for at in range(0, len(data), STEP):
            for piece in self._chain(data[at : at + STEP], 0):
                self._produced += len(piece)
                if self._produced > allowed:
                    raise Expansion
                yield piece

    @property
    def complete(self) -> bool:
        """Whether every coding has reached its own end."""
        return all(decoder.complete for decoder in self._decoders)

    def _chain(self, data: bytes, level: int) -> Iterator[bytes]:
        if level == len(self._decoders):
            yield data
            return
        for piece in self._decoders[level].feed(data):
            yield from self._chain(piece, level + 1)
