"""Compressed bodies: what is wrong with them is told, and a bomb stays small."""

from __future__ import annotations

import gzip
import json
import random
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import brotli
import pytest
from backports import zstd

from extproc.wire import (
    DIALECTS,
    Channel,
    Ended,
    Event,
    Framing,
    Layer,
    Limits,
    Malformed,
    Reader,
    Text,
    TooLarge,
    UnknownEncoding,
)
from extproc.wire.encoding import FEW, PIECE, SHORT, DecodeError, Decoding
from tests.unit.wire.reading import bytewise, read

CODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": lambda data: brotli.compress(data, quality=5),
    "zstd": zstd.compress,
}
EACH = pytest.mark.parametrize("encoding", CODERS)
BODY = json.dumps({"choices": [{"index": 0, "message": {"content": "hello " * 50}}]}).encode()


@EACH
def test_a_truncated_body_is_malformed_and_its_beginning_still_read(encoding: str) -> None:
    stream = b"".join(
        b'data: {"choices":[{"index":0,"delta":{"content":"w%d"}}]}\n\n' % i for i in range(20_000)
    )
    packed = CODERS[encoding](stream)
    events = read("openai.chat", Framing.SSE, [packed[: len(packed) // 2]], encoding)
    assert Malformed(Layer.ENCODING, "the compressed body ends early") in events
    assert events[0] == Text(0, Channel.CONTENT, "w0", 1)


@EACH
def test_a_body_that_is_not_compressed_after_all_is_malformed(encoding: str) -> None:
    for pieces in ([BODY], bytewise(BODY)):
        events = read("openai.chat", Framing.JSON, pieces, encoding)
        first = events[0]
        assert isinstance(first, Malformed)
        assert first.layer is Layer.ENCODING


@EACH
def test_a_compressed_body_without_its_header_is_malformed_json(encoding: str) -> None:
    events = read("openai.chat", Framing.JSON, [CODERS[encoding](BODY)])
    assert any(type(e) is Malformed and e.layer is Layer.JSON for e in events)


def test_an_unknown_encoding_is_refused_by_the_constructor() -> None:
    for name in ("compress", "gzip, lzma", "gzip, gzip, gzip"):
        with pytest.raises(UnknownEncoding):
            Reader(DIALECTS["openai.chat"](), Framing.JSON, name)


def _bomb(encoding: str) -> bytes:
    return CODERS[encoding](bytes(64 << 20))


@EACH
@pytest.mark.parametrize("framing", [Framing.JSON, Framing.SSE, Framing.NDJSON])
def test_a_bomb_ends_the_reading_in_little_memory(encoding: str, framing: Framing) -> None:
    bomb = _bomb(encoding)
    limits = Limits(body=1 << 20, message=64 << 10)
    tracemalloc.start()
    reader = Reader(DIALECTS["auto"](), framing, encoding, limits)
    events: list[Event] = []
    for start in range(0, len(bomb), 4096):
        events += reader.feed(bomb[start : start + 4096])
        if reader.stopped:
            break
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [event for event in events if type(event) is TooLarge]
    assert reader.stopped
    assert reader.finish() == []
    assert peak < 6 << 20


@EACH
def test_decoded_pieces_are_small(encoding: str) -> None:
    decoding = Decoding(encoding, floor=64 << 20, ratio=1)
    sizes = [len(piece) for piece in decoding.feed(CODERS[encoding](bytes(8 << 20)))]
    assert sum(sizes) == 8 << 20
    assert max(sizes) <= 4 * PIECE  # brotli goes past its limit by a block
    assert decoding.complete


def test_a_bomb_inside_a_bomb_ends_as_well() -> None:
    bomb = gzip.compress(gzip.compress(bytes(128 << 20)))
    events = read("auto", Framing.JSON, [bomb], "gzip, gzip")
    assert events == [TooLarge("expansion", 100)] or events == [TooLarge("body", 1 << 20)]


def test_several_gzip_members_with_padding_are_one_body() -> None:
    packed = gzip.compress(BODY[:30]) + bytes(7) + gzip.compress(BODY[30:]) + bytes(3)
    for pieces in ([packed], bytewise(packed)):
        events = read("openai.chat", Framing.JSON, pieces, "gzip")
        assert events == [Text(0, Channel.CONTENT, "hello " * 50), Ended(False, True)]


@pytest.mark.parametrize("encoding", ["deflate", "br"])
def test_bytes_past_the_end_are_ignored_and_not_kept(encoding: str) -> None:
    decoding = Decoding(encoding, floor=1 << 20, ratio=1)
    assert b"".join(decoding.feed(CODERS[encoding](BODY))) == BODY
    tracemalloc.start()
    for _ in range(1000):
        assert list(decoding.feed(bytes(4096))) == []
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 << 10


EMPTY = {
    "gzip": gzip.compress(b"", mtime=0),
    "zstd": zstd.compress(b""),
    "zstd, skipped": b"\x50\x2a\x4d\x18\x00\x00\x00\x00",
}


class Counted:
    """Makes decoders, and counts them and what they are given."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make
        self.made = self.given = 0

    def __call__(self, *args: Any, **options: Any) -> Any:
        self.made += 1
        return _Given(self, self._make(*args, **options))


class _Given:
    def __init__(self, counted: Counted, engine: Any) -> None:
        self._counted, self._engine = counted, engine

    def decompress(self, data: bytes, *args: Any, **options: Any) -> bytes:
        self._counted.given += len(data)
        return bytes(self._engine.decompress(data, *args, **options))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> dict[str, Counted]:
    made = {"gzip": Counted(zlib.decompressobj), "zstd": Counted(zstd.ZstdDecompressor)}
    monkeypatch.setattr("extproc.wire.encoding.zlib.decompressobj", made["gzip"])
    monkeypatch.setattr("extproc.wire.encoding.zstd.ZstdDecompressor", made["zstd"])
    return made


@pytest.mark.parametrize("name", EMPTY)
def test_a_body_of_empty_members_is_given_up(name: str, counted: dict[str, Counted]) -> None:
    encoding = name.partition(",")[0]
    body = EMPTY[name] * ((1 << 20) // len(EMPTY[name]))
    decoding = Decoding(encoding, floor=1 << 20, ratio=100)
    with pytest.raises(DecodeError, match="too many members"):
        list(decoding.feed(body))
    assert counted[encoding].made < FEW + len(body) // SHORT + 2


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_body_of_many_members_costs_by_its_length(
    encoding: str, counted: dict[str, Counted]
) -> None:
    # Half a kilobyte each, as a proxy sends that ends a member with every token.
    text = random.Random(1).randbytes(512)
    member = CODERS[encoding](text)
    given = []
    for members in (500, 1000, 2000):
        before = counted[encoding].given
        decoding = Decoding(encoding, floor=1 << 20, ratio=100)
        assert sum(map(len, decoding.feed(member * members))) == members * len(text)
        given.append(counted[encoding].given - before)
    assert given[2] < 2.2 * given[1] < 4.84 * given[0]


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_what_expands_much_costs_by_its_length(encoding: str, counted: dict[str, Counted]) -> None:
    unit = random.Random(1).randbytes(600) + bytes(40_000)
    for units in (250, 1000):
        before = counted["gzip"].given
        packed = CODERS[encoding](unit * units)
        decoding = Decoding(encoding, floor=1 << 30, ratio=100)
        assert sum(map(len, decoding.feed(packed))) == len(unit) * units
        assert counted["gzip"].given - before < 30 * len(packed)
