"""How a body is cut into pieces never changes what it says."""

from __future__ import annotations

import gzip
import zlib

import brotli
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from extproc.wire import Framing, Limits
from extproc.wire.lines import LineParser
from extproc.wire.sse import SSEParser
from tests.unit.wire.reading import bytewise, cut, read
from tests.unit.wire.samples import SAMPLES

NAMES = st.sampled_from(sorted(SAMPLES))
PLACES = st.lists(st.integers(0, 1 << 16), max_size=40)


def _raw(data: bytes) -> bytes:
    engine = zlib.compressobj(wbits=-15)
    return engine.compress(data) + engine.flush()


ENCODERS = {
    "": bytes,
    "identity": bytes,
    "gzip": gzip.compress,
    "x-gzip": lambda data: gzip.compress(data[:20]) + gzip.compress(data[20:]),
    "deflate": zlib.compress,
    "Deflate": _raw,
    "br": brotli.compress,
    "zstd": lambda data: zstd.compress(data[:20]) + zstd.compress(data[20:]),
    "gzip, br": lambda data: brotli.compress(gzip.compress(data)),
    "zstd,identity,deflate": lambda data: zlib.compress(zstd.compress(data)),
}


@given(NAMES, PLACES)
def test_every_split_of_every_dialect_gives_equal_events(name: str, places: list[int]) -> None:
    sample = SAMPLES[name]
    assert read(sample.dialect, sample.framing, cut(sample.body, places)) == sample.events


@given(NAMES, PLACES, st.sampled_from(sorted(ENCODERS)))
def test_every_split_of_every_encoding_gives_equal_events(
    name: str, places: list[int], encoding: str
) -> None:
    sample = SAMPLES[name]
    body = ENCODERS[encoding](sample.body)
    assert read(sample.dialect, sample.framing, cut(body, places), encoding) == sample.events


@pytest.mark.parametrize("encoding", sorted(ENCODERS))
def test_single_bytes_of_every_encoding_give_equal_events(encoding: str) -> None:
    for sample in SAMPLES.values():
        body = ENCODERS[encoding](sample.body)
        assert read(sample.dialect, sample.framing, bytewise(body), encoding) == sample.events


# Pieces that make up bodies near every branch of the parsers, with a limit that they pass often.
SCRAPS = st.lists(
    st.sampled_from(
        [
            *(b"data: ", b"data:", b"data", b"event: x", b"id: 1", b": c", b"\n", b"\r", b"\r\n"),
            *(b"\n\n", b"{", b'{"a":1}', b"[DONE]", b" ", b"x" * 30, b"x" * 70, b"\xef\xbb\xbf"),
            b"\xff",
        ]
    ),
    max_size=30,
).map(b"".join)


@given(SCRAPS, PLACES)
def test_the_sse_parser_does_not_depend_on_pieces(body: bytes, places: list[int]) -> None:
    whole, pieces = SSEParser(64), SSEParser(64)
    expected = [*whole.feed(body), *whole.finish()]
    got = [message for piece in cut(body, places) for message in pieces.feed(piece)]
    assert [*got, *pieces.finish()] == expected


@given(
    st.integers(0, 400), st.lists(st.sampled_from([b"", b"a", b"bcd"]), min_size=1), st.booleans()
)
def test_any_number_of_data_lines_are_one_message(
    number: int, values: list[bytes], ended: bool
) -> None:
    lines = [values[n % len(values)] for n in range(number)]
    body = b"".join(b"data: " + line + b"\n" for line in lines)
    parser = SSEParser(1 << 16)
    got = parser.feed(body + b"\n" if ended else body)
    assert parser.between is (ended or not lines)
    assert parser.unfinished is (not ended and bool(lines))
    assert [data for _, data, _ in [*got, *parser.finish()]] == (
        [b"\n".join(lines)] if lines else []
    )


@given(SCRAPS, PLACES)
def test_the_line_parser_does_not_depend_on_pieces(body: bytes, places: list[int]) -> None:
    whole, pieces = LineParser(64), LineParser(64)
    expected = [*whole.feed(body), *whole.finish()]
    got = [message for piece in cut(body, places) for message in pieces.feed(piece)]
    assert [*got, *pieces.finish()] == expected


@given(SCRAPS, PLACES, st.sampled_from(Framing), st.sampled_from(["auto", "ollama"]))
def test_broken_bodies_do_not_depend_on_pieces(
    body: bytes, places: list[int], framing: Framing, dialect: str
) -> None:
    limits = Limits(body=400, message=64)
    pieces = [piece for piece in cut(body, places) if piece]
    assert read(dialect, framing, pieces, "", limits) == read(dialect, framing, [body], "", limits)
