"""Reading by template and reading by parsing are the same."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import cycle, islice

from hypothesis import given
from hypothesis import strategies as st

from extproc.wire import DIALECTS, Channel, Event, Framing, Reader, Text, Texts
from tests.unit.wire.reading import bytewise, cut, read

PIECES = st.lists(
    st.text(max_size=6) | st.sampled_from(['"', "\\", "\n", "</think>", '","role":"x', "\u00e9"]),
    max_size=12,
)


def chat(text: str, ascii_only: bool, field: str = "content") -> bytes:
    choice = {"index": 0, "delta": {field: text}, "logprobs": None, "finish_reason": None}
    frame = {"id": "c", "model": "m", "choices": [choice]}
    dumped = json.dumps(frame, ensure_ascii=ascii_only)
    return b"data: " + dumped.encode("utf-8", "replace") + b"\n\n"


def anthropic(text: str, ascii_only: bool) -> bytes:
    delta = {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": text},
    }
    dumped = json.dumps(delta, ensure_ascii=ascii_only)
    return b"event: content_block_delta\ndata: " + dumped.encode("utf-8", "replace") + b"\n\n"


TOGETHER = st.lists(st.integers(1, 9), min_size=1, max_size=4)
"""How many messages arrive at once, again and again."""

PLACES = st.lists(st.integers(0, 1 << 16), max_size=6)
"""Where else the stream is cut."""


def events(dialect: str, chunks: Iterable[bytes]) -> list[Event]:
    return read(dialect, Framing.SSE, chunks)


def same(dialect: str, messages: list[bytes], together: list[int], places: list[int]) -> None:
    parsed = events(dialect, bytewise(b"".join(messages)))
    assert events(dialect, messages) == parsed
    assert events(dialect, batches(messages, together)) == parsed
    assert events(dialect, cut(b"".join(messages), places)) == parsed


def batches(messages: list[bytes], together: list[int]) -> Iterator[bytes]:
    left = iter(messages)
    for count in cycle(together):
        batch = b"".join(islice(left, count))
        if not batch:
            return
        yield batch


@given(PIECES, st.booleans(), TOGETHER, PLACES)
def test_of_a_chat_stream(
    pieces: list[str], ascii_only: bool, together: list[int], places: list[int]
) -> None:
    same("openai.chat", [chat(piece, ascii_only) for piece in pieces], together, places)


@given(PIECES, st.booleans(), TOGETHER, PLACES)
def test_of_an_anthropic_stream(
    pieces: list[str], ascii_only: bool, together: list[int], places: list[int]
) -> None:
    messages = [anthropic(piece, ascii_only) for piece in pieces]
    same("anthropic.messages", messages, together, places)


@given(PIECES, st.lists(st.sampled_from(["content", "reasoning", "refusal"])), TOGETHER, PLACES)
def test_of_a_stream_that_changes_its_channel(
    pieces: list[str], fields: list[str], together: list[int], places: list[int]
) -> None:
    messages = [chat(p, False, f) for p, f in zip(pieces, fields, strict=False)]
    same("openai.chat", messages, together, places)


@given(PIECES, st.binary(max_size=30), PIECES, TOGETHER, PLACES)
def test_of_a_stream_with_any_bytes_in_the_place_of_text(
    pieces: list[str], raw: bytes, after: list[str], together: list[int], places: list[int]
) -> None:
    messages = [chat(piece, False) for piece in ["a", "b", *pieces]]
    odd = messages[0].replace(b'"a"', b'"' + raw + b'"')
    rest = [chat(piece, False) for piece in after]
    same("openai.chat", [*messages, odd, *rest], together, places)


@given(PIECES, st.lists(st.binary(max_size=4), max_size=4), TOGETHER, PLACES)
def test_of_a_stream_with_anything_between_its_messages(
    pieces: list[str], scraps: list[bytes], together: list[int], places: list[int]
) -> None:
    messages = [chat(piece, False) for piece in ["a", *pieces]]
    between = [b"", *scraps, b": ping\n\n", b"data: [DONE]\n\n"]
    mixed = [part for pair in zip(messages, cycle(between), strict=False) for part in pair]
    same("openai.chat", [part for part in mixed if part], together, places)


def test_messages_that_come_at_once_are_told_at_once() -> None:
    reader = Reader(DIALECTS["openai.chat"](), Framing.SSE)
    reader.feed(chat("a", False))
    rest = chat("d", False).replace(b"null", b'"stop"')
    told = reader.feed(chat("b", False) + chat('"c\\', False) + rest)
    assert told[0] == Texts(0, Channel.CONTENT, ("b", '"c\\'), 1)
    assert told[1] == Text(0, Channel.CONTENT, "d", 1)


def test_a_text_that_stands_in_another_field_too_is_no_hole() -> None:
    message = chat("m", False)  # also the model's name
    found = events("openai.chat", [message, message.replace(b'"model": "m"', b'"model": "n"')])
    assert [e for e in found if type(e) is Text] == [Text(0, Channel.CONTENT, "m", 1)] * 2
