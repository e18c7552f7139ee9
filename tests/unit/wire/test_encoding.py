"""Compressed bodies: what is wrong with them is told, and a bomb stays small."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zlib
from collections.abc import Callable

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
from extproc.wire.encoding import PIECE, Decoding
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
