"""A client's schema is checked, and cannot make the check go on for ever."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.detect import Kind
from extproc.detect.schema import STEPS, WORK, broken_keyword
from extproc.wire import RequestFacts
from tests.unit.detect.say import whole

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "age": {"type": "integer", "minimum": 0},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
    "$defs": {"tag": {"enum": ["a", "b"]}},
}


@pytest.mark.parametrize(
    ("value", "keyword"),
    [
        ({"name": "x", "age": 3, "tags": ["a"] * 500}, None),
        ({"name": "x"}, "required"),
        ({"name": "x", "age": -1}, "minimum"),
        ({"name": "x", "age": 1, "tags": ["c"]}, "enum"),
        ({"name": "x", "age": 1, "more": 1}, "additionalProperties"),
        ([], "type"),
    ],
)
def test_the_broken_keyword_is_named(value: object, keyword: str | None) -> None:
    assert broken_keyword(FORM, value) == keyword


def forking(keyword: str, levels: int = 60) -> dict[str, Any]:
    """Doubles the work at each level."""
    defs: dict[str, Any] = {
        f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)
    }
    defs[f"d{levels}"] = True
    return {"$defs": defs, "$ref": "#/$defs/d0"}


HOSTILE = {
    **{f"forking {name}": forking(name) for name in ("allOf", "anyOf", "oneOf")},
    "endless": {"$ref": "#"},
    "endless below": {"properties": {"a": {"$ref": "#"}}, "allOf": [{"$ref": "#"}]},
    "backtracking": {"pattern": "^(a+)+$", "patternProperties": {"^(a+)+$": False}},
    "many items": {"items": {"anyOf": [{"type": "string"}] * 50}},
    "backtracking beside": {
        "patternProperties": {"^(a+)+$": {}, "^(a|a)*$": {}},
        "additionalProperties": False,
    },
    "items of no schema": {"allOf": [{"items": {}}] * 900},
    "names of no schema": {"allOf": [{"propertyNames": True}] * 600},
    "long pointers": {
        "allOf": [{"$ref": "#/$defs/x"}] * 700,
        "$defs": {"x": {"$ref": "#" + "/a" * 300}},
    },
    "parts by name": {
        "allOf": [{"$ref": "#x"}] * 600,
        "$defs": {"x": {"$anchor": "x"}, **{f"k{n}": {"not": {}} for n in range(300)}},
    },
    "large enumerations": {
        "allOf": [{"$ref": "#/$defs/x"}] * 700,
        "$defs": {"x": {"enum": [[1] * 1000, "x"]}},
    },
    "as deep as a parser takes": orjson.loads('{"a":' * 1000 + "1" + "}" * 1000),
    "unique": {"uniqueItems": True},
    "unevaluated": {"unevaluatedProperties": forking("anyOf"), **forking("anyOf")},
    "elsewhere": {"$ref": "https://example.org/schema.json"},
    "no schema": {"type": 7, "properties": 3, "required": {"a": 1}},
    "not a number": {"minimum": float("nan"), "multipleOf": 0},
}
VALUES = (
    "a" * 40 + "!",
    {"a" * 40 + "!": 1},
    [[n] if n % 2 else {"a": n} for n in range(2000)],
    [1] * 6000,
    {f"k{n}": n for n in range(1000)},
    1,
)


@pytest.mark.parametrize("name", HOSTILE)
def test_no_schema_goes_on_for_ever(name: str, calls: Callable[[], int]) -> None:
    for value in VALUES:
        before = calls()
        broken_keyword(HOSTILE[name], value)
        assert calls() - before < 12 * (STEPS + WORK)


@pytest.fixture
def calls() -> Iterator[Callable[[], int]]:
    """How many functions of Python were entered so far: work, whatever the machine is busy with."""
    entered = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal entered
        entered += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield lambda: entered
    finally:
        sys.setprofile(before)


def test_properties_beside_patterns_are_not_called_additional() -> None:
    schema = {"patternProperties": {"^x": {}}, "additionalProperties": False, "required": ["x"]}
    assert broken_keyword(schema, {"x": 1, "y": 2}) is None
    assert broken_keyword(schema, {"y": 2}) == "required"


def test_parts_with_names_of_their_own_are_found() -> None:
    schema = {
        "$id": "https://example.org/form",
        "properties": {"a": {"$ref": "#tag"}, "b": {"$ref": "part"}},
        "$defs": {
            "t": {"$anchor": "tag", "type": "string"},
            "p": {"$id": "part", "type": "integer"},
        },
    }
    assert broken_keyword(schema, {"a": "x", "b": 1}) is None
    assert broken_keyword(schema, {"a": 1}) == "type"
    assert broken_keyword(schema, {"b": "x"}) == "type"


def test_what_takes_too_many_steps_is_no_finding() -> None:
    items = {"items": {"type": "string"}}
    assert broken_keyword(items, [*["a"] * (STEPS // 2), 1]) == "type"
    assert broken_keyword(items, [*["a"] * STEPS, 1]) is None


def test_an_answer_under_a_hostile_schema_is_judged_by_the_rest() -> None:
    body = {
        "messages": [],
        "response_format": {"type": "json_schema", "json_schema": {"schema": forking("oneOf")}},
    }
    request = RequestFacts.parse("POST", "/v1/chat/completions", body)
    assert whole(json.dumps({"a": 1}), request=request).kind is Kind.CLEAN
    assert whole("{" + "!" * 200, request=request).kind is Kind.CORRUPT


KEYWORDS = st.sampled_from(
    [
        *("$ref", "type", "items", "properties", "allOf", "anyOf", "oneOf", "not", "if", "then"),
        *("required", "enum", "const", "contains", "minimum", "dependentSchemas", "prefixItems"),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["#", "object", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(KEYWORDS, JSON, max_size=4), JSON)
def test_any_schema_and_any_value_are_taken(schema: dict[str, Any], value: object) -> None:
    broken_keyword(schema, value)
