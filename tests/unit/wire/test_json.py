"""JSON that a broken engine writes."""

from __future__ import annotations

import json

import pytest

from extproc.wire import Event, Layer, Malformed, NonFinite
from extproc.wire.json import MAX_REPORTED, Unreadable, loads


@pytest.mark.parametrize(
    ("text", "path", "literal"),
    [
        ('{"a":[1,{"b":NaN}]}', "$.a[1].b", "NaN"),
        ("[-Infinity]", "$[0]", "-Infinity"),
        ("1e999", "$", "Infinity"),
        ('{"some generated text":Infinity}', "$.*", "Infinity"),
    ],
)
def test_a_non_finite_value_is_located(text: str, path: str, literal: str) -> None:
    out: list[Event] = []
    loads(text.encode(), out)
    assert out == [NonFinite(path, literal)]


def test_only_the_first_of_many_are_named() -> None:
    out: list[Event] = []
    value = loads(b"[" + b"NaN," * 1000 + b"NaN]", out)
    assert len(value) == 1001
    assert out == [NonFinite(f"$[{i}]", "NaN") for i in range(MAX_REPORTED)]


def test_a_deep_document_is_not_walked_in_quadratic_memory() -> None:
    out: list[Event] = []
    depth = 600
    loads(b"[" * depth + b"NaN," + b"0.5," * 20_000 + b"1]" + b"]" * (depth - 1), out)
    (event,) = out
    assert isinstance(event, NonFinite)
    assert len(event.path) < 100


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r'"\ud83d"', "\ufffd"),
        (r'"\ude00\ud83d"', "\ufffd\ufffd"),
        (r'"\ud83dx\ude00\u0041"', "\ufffdx\ufffdA"),
        (r'"\\ud83d \ud83d\ude00 \ud83d"', "\\ud83d \U0001f600 \ufffd"),
    ],
)
def test_half_a_surrogate_pair_is_replaced(text: str, expected: str) -> None:
    assert loads(text.encode(), []) == expected


@pytest.mark.parametrize("text", ['"a\x01\n"', "[1, 2]"])
def test_control_characters_in_strings_are_read(text: str) -> None:
    assert loads(text.encode(), []) == json.loads(text, strict=False)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"Internal Server Error", b"[" * 100_000, b"9" * 5000, b'{"a":1} x']
)
def test_what_is_no_json_is_unreadable(data: bytes) -> None:
    with pytest.raises(Unreadable):
        loads(data, [])


def test_bytes_that_are_no_utf8_are_located() -> None:
    out: list[Event] = []
    assert loads(b'"a\xffb"', out) == "a\ufffdb"
    assert out == [Malformed(Layer.UTF8, "byte 2")]
