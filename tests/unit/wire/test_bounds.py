"""Messages and bodies past a bound: dropped, told, and the next one read."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from extproc.wire import (
    DIALECTS,
    Channel,
    Ended,
    Finish,
    Framing,
    Layer,
    Limits,
    Malformed,
    Reader,
    Terminator,
    Text,
    TooLarge,
)
from tests.unit.wire.reading import bytewise, read
from tests.unit.wire.samples.build import C, delta, lines, sse, typed

LIMITS = Limits(body=4096, message=1024)
LONG = "x" * 2000


@pytest.mark.parametrize("pieces", [lambda b: [b], bytewise])
def test_an_oversized_message_is_dropped_and_the_next_one_read(pieces: object) -> None:
    assert callable(pieces)
    body = sse(delta(content="a"), delta(content=LONG), delta(content="b", finish="stop"))
    assert read("openai.chat", Framing.SSE, pieces(body), "", LIMITS) == [
        Text(0, C, "a", 1),
        TooLarge("message", 1024),
        Text(0, C, "b", 1),
        Finish(0, "stop"),
        Terminator(),
        Ended(True, True),
    ]


def test_an_oversized_message_is_dropped_also_after_many_of_its_shape() -> None:
    messages = [sse(delta(content=word), done=False) for word in (*"abcdef", LONG, "g")]
    body = b"".join(messages)
    expected = read("openai.chat", Framing.SSE, bytewise(body), "", LIMITS)
    assert TooLarge("message", 1024) in expected
    for pieces in (messages, [body], [*messages[:6], b"".join(messages[6:])]):
        assert read("openai.chat", Framing.SSE, pieces, "", LIMITS) == expected


def test_an_oversized_line_is_dropped_and_the_next_one_read() -> None:
    body = lines({"response": LONG, "done": False}, {"response": "b", "done": False})
    for pieces in ([body], bytewise(body)):
        events = read("ollama", Framing.NDJSON, pieces, "", LIMITS)
        assert events[:2] == [TooLarge("message", 1024), Text(0, C, "b", 1)]


@pytest.mark.parametrize(
    ("dialect", "framing", "body", "finish"),
    [
        (
            "openai.responses",
            Framing.SSE,
            typed(
                {"type": "response.output_text.delta", "delta": "a"},
                {"type": "response.output_text.done", "text": LONG},
                {"type": "response.completed", "response": {"output": LONG}},
            ),
            "stop",
        ),
        (
            "llama.cpp",
            Framing.SSE,
            sse(
                {"content": "a", "stop": False},
                {"content": "", "stop": True, "stop_type": "limit", "prompt": LONG},
                done=False,
            ),
            "length",
        ),
        (
            "ollama",
            Framing.NDJSON,
            lines(
                {"response": "a", "done": False},
                {"response": "", "done": True, "done_reason": "length", "context": [1] * 2000},
            ),
            "length",
        ),
        (
            "tgi",
            Framing.SSE,
            sse(
                {"token": {"text": "a"}, "generated_text": None},
                {"token": {"text": "b"}, "generated_text": LONG},
                done=False,
            ),
            "other",
        ),
    ],
)
def test_a_last_message_that_repeats_everything_may_be_oversized(
    dialect: str, framing: Framing, body: bytes, finish: str
) -> None:
    for pieces in ([body], bytewise(body)):
        events = read(dialect, framing, pieces, "", LIMITS)
        assert events[0] == Text(0, C, "a", 1)
        assert events[1:3] == [Finish(0, finish), Terminator()]
        assert type(events[3]) is Ended


def test_a_body_past_its_bound_ends_the_reading() -> None:
    body = json.dumps({"choices": [{"message": {"content": "x" * 5000}}]}).encode()
    for pieces in ([body], bytewise(body)):
        assert read("openai.chat", Framing.JSON, pieces, "", LIMITS) == [TooLarge("body", 4096)]


@pytest.mark.parametrize(
    "endless", [b"data:\n", b"data: x\n", b": c\n", b"x", b"{", b" ", b"event: e\n", b"\r\n", b"["]
)
@pytest.mark.parametrize("framing", Framing)
def test_no_endless_body_takes_endless_memory(endless: bytes, framing: Framing) -> None:
    reader = Reader(DIALECTS["auto"](), framing, "", Limits(body=64 << 10, message=64 << 10))
    tracemalloc.start()
    for _ in range(4):
        for start in range(0, 100_000, 500):
            reader.feed(endless if start % 1000 else endless * 500)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 512 << 10


def test_bytes_that_are_no_utf8_are_told_and_the_text_around_them_read() -> None:
    body = b'data: {"choices":[{"index":0,"delta":{"content":"a\xff\xfeb"}}]}\n\ndata: [DONE]\n\n'
    for pieces in ([body], bytewise(body)):
        assert read("openai.chat", Framing.SSE, pieces)[:2] == [
            Malformed(Layer.UTF8, "byte 44"),
            Text(0, Channel.CONTENT, "a\ufffd\ufffdb", 1),
        ]


def test_a_stream_cut_inside_a_character_is_told() -> None:
    body = 'data: {"choices":[{"index":0,"delta":{"content":"é'.encode()[:-1]
    events = read("openai.chat", Framing.SSE, [body])
    assert [e.layer for e in events if type(e) is Malformed] == [
        Layer.FRAMING,
        Layer.UTF8,
        Layer.JSON,
    ]


def test_a_last_word_without_its_blank_line_is_a_last_word() -> None:
    for ending in (b"data: [DONE]", b"data: [DONE]\n", b"data:[DONE]\r"):
        events = read("openai.chat", Framing.SSE, [sse(delta(content="a"), done=False) + ending])
        assert events == [Text(0, C, "a", 1), Terminator(), Ended(True, True)]


def test_keep_alives_say_nothing() -> None:
    body = b": ping\n\n:\n\ndata:\n\ndata: \n\nevent: ping\n\nretry: 10\n\nid: 1\n\n"
    events = read("openai.chat", Framing.SSE, [body + sse()])
    assert events == [Terminator(), Ended(True, True)]


def test_an_empty_body_says_only_that_it_ended() -> None:
    assert read("openai.chat", Framing.JSON, []) == [Ended(False, True)]
    assert read("openai.chat", Framing.JSON, [b" \n"]) == [Ended(False, True)]
