"""What requests of every API ask for."""

from __future__ import annotations

from typing import Any

import pytest

from extproc.wire import OutputFormat, RequestFacts
from extproc.wire.request import PROMPT_LIMIT

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def facts(body: object) -> RequestFacts:
    return RequestFacts.parse("POST", "/v1/x?key=secret", body)


def test_a_body_that_was_not_seen_leaves_nothing_known() -> None:
    assert facts(None) == RequestFacts("POST", "/v1/x", known=False)
    assert facts(["?"]) == RequestFacts("POST", "/v1/x", known=True)


def test_chat() -> None:
    found = facts(
        {
            "model": "m",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "Say hi"}]},
                {"role": "assistant", "content": "hi"},
                {"role": "user", "content": "again"},
            ],
            "max_completion_tokens": 5,
            "stream": True,
            "n": 2,
            "logprobs": True,
            "temperature": 0,
            "tools": [{"type": "function", "function": {"name": "f"}}],
        }
    )
    assert found.prompt == "Be brief.\nSay hi\nagain"
    assert (found.model, found.max_tokens, found.stream, found.n) == ("m", 5, True, 2)
    assert (found.logprobs, found.temperature, found.tools) == (True, 0.0, ("f",))
    assert found.prefill == ""


@pytest.mark.parametrize(
    ("body", "prompt", "max_tokens"),
    [
        ({"prompt": "p", "max_tokens": 3}, "p", 3),
        ({"prompt": ["p", "q"], "max_tokens": 3}, "p\nq", 3),
        ({"input": "p", "instructions": "i", "max_output_tokens": 3}, "i\np", 3),
        ({"input": [{"role": "user", "content": [{"text": "p"}]}]}, "p", None),
        ({"system": [{"text": "s"}], "messages": [{"role": "user", "content": "p"}]}, "s\np", None),
        ({"prompt": "p", "n_predict": -1}, "p", None),
        ({"prompt": "p", "options": {"num_predict": 3}}, "p", 3),
        ({"inputs": "p", "parameters": {"max_new_tokens": 3}}, "p", 3),
    ],
)
def test_the_prompt_and_its_limit_in_every_api(
    body: Any, prompt: str, max_tokens: int | None
) -> None:
    assert (facts(body).prompt, facts(body).max_tokens) == (prompt, max_tokens)


def test_a_long_prompt_keeps_both_ends() -> None:
    prompt = facts({"prompt": "a" * PROMPT_LIMIT + "b" * PROMPT_LIMIT}).prompt
    assert len(prompt) == PROMPT_LIMIT + 1
    assert prompt.startswith("aa")
    assert prompt.endswith("bb")


@pytest.mark.parametrize(
    ("body", "asked", "schema"),
    [
        ({}, OutputFormat.TEXT, None),
        ({"response_format": {"type": "text"}}, OutputFormat.TEXT, None),
        ({"response_format": {"type": "json_object"}}, OutputFormat.JSON_OBJECT, None),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
            OutputFormat.JSON_SCHEMA,
            SCHEMA,
        ),
        ({"response_format": {"type": "json_schema"}}, OutputFormat.JSON_SCHEMA, None),
        (
            {"response_format": {"type": "json_object", "schema": SCHEMA}},
            OutputFormat.JSON_SCHEMA,
            SCHEMA,
        ),
        (
            {"text": {"format": {"type": "json_schema", "schema": SCHEMA}}},
            OutputFormat.JSON_SCHEMA,
            SCHEMA,
        ),
        ({"guided_json": SCHEMA}, OutputFormat.JSON_SCHEMA, SCHEMA),
        ({"structured_outputs": {"json": SCHEMA}}, OutputFormat.JSON_SCHEMA, SCHEMA),
        ({"structured_outputs": {"regex": "a+"}}, OutputFormat.GRAMMAR, None),
        ({"json_schema": SCHEMA}, OutputFormat.JSON_SCHEMA, SCHEMA),
        ({"format": "json"}, OutputFormat.JSON_OBJECT, None),
        ({"format": SCHEMA}, OutputFormat.JSON_SCHEMA, SCHEMA),
        (
            {"parameters": {"grammar": {"type": "json", "value": SCHEMA}}},
            OutputFormat.JSON_SCHEMA,
            SCHEMA,
        ),
        ({"grammar": "root ::= x"}, OutputFormat.GRAMMAR, None),
        ({"guided_choice": ["a", "b"]}, OutputFormat.GRAMMAR, None),
    ],
)
def test_the_output_format_in_every_api(
    body: Any, asked: OutputFormat, schema: dict[str, Any] | None
) -> None:
    assert (facts(body).format, facts(body).schema) == (asked, schema)


def test_inputs_and_documents_are_counted_with_their_repeats() -> None:
    found = facts({"input": ["a", "b", "a"]})
    assert (found.inputs, found.distinct_inputs) == (3, 2)
    assert facts({"input": [1, 2, 3]}).inputs == 1
    assert facts({"input": [[1, 2], [3]]}).distinct_inputs == 2
    found = facts({"query": "q", "documents": ["a", {"text": "a"}, "a"]})
    assert (found.documents, found.distinct_documents) == (3, 2)


def test_what_makes_odd_output_legitimate() -> None:
    found = facts(
        {
            "prompt": "p",
            "echo": True,
            "logprobs": 0,
            "ignore_eos": True,
            "messages": [{"role": "assistant", "content": "{"}],
        }
    )
    assert found.echo
    assert found.logprobs
    assert found.ignore_eos
    assert found.prefill == "{"
