"""Reading by template and reading by parsing are the same."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from extproc.wire import Event, Framing, Reader
from extproc.wire.dialects import DIALECTS
from extproc.wire.events import Channel, Text

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


def events(dialect: str, chunks: list[bytes]) -> list[Event]:
    reader = Reader(DIALECTS[dialect](), Framing.SSE)
    return [e for chunk in chunks for e in reader.feed(chunk)] + reader.finish()


def same(dialect: str, messages: list[bytes]) -> None:
    parsed = events(dialect, [bytes([byte]) for byte in b"".join(messages)])
    assert events(dialect, messages) == parsed


@given(PIECES, st.booleans())
def test_of_a_chat_stream(pieces: list[str], ascii_only: bool) -> None:
    same("openai.chat", [chat(piece, ascii_only) for piece in pieces])


@given(PIECES, st.booleans())
def test_of_an_anthropic_stream(pieces: list[str], ascii_only: bool) -> None:
    same("anthropic.messages", [anthropic(piece, ascii_only) for piece in pieces])


@given(PIECES, st.lists(st.sampled_from(["content", "reasoning", "refusal"]), min_size=12))
def test_of_a_stream_that_changes_its_channel(pieces: list[str], fields: list[str]) -> None:
    same("openai.chat", [chat(p, False, f) for p, f in zip(pieces, fields, strict=False)])


@given(PIECES, st.binary(max_size=30))
def test_of_a_stream_with_any_bytes_in_the_place_of_text(pieces: list[str], raw: bytes) -> None:
    messages = [chat(piece, False) for piece in ["a", "b", *pieces]]
    same("openai.chat", [*messages, messages[0].replace(b'"a"', b'"' + raw + b'"'), messages[1]])


def test_a_text_that_stands_in_another_field_too_is_no_hole() -> None:
    message = chat("m", False)  # also the model's name
    found = events("openai.chat", [message, message.replace(b'"model": "m"', b'"model": "n"')])
    assert [e for e in found if type(e) is Text] == [Text(0, Channel.CONTENT, "m", 1)] * 2
