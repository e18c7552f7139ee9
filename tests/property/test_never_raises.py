"""Whatever arrives, reading it raises nothing."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.wire import DIALECTS, Ended, Event, Framing, RequestFacts
from tests.unit.wire.reading import read
from tests.unit.wire.samples import SAMPLES

DIALECT = st.sampled_from(sorted(DIALECTS))
FRAMING = st.sampled_from(Framing)

# Field names of all dialects, so that arbitrary values reach the code that reads them.
FIELDS = st.sampled_from(
    [
        *("choices", "delta", "message", "content", "text", "index", "finish_reason", "logprobs"),
        *("reasoning", "refusal", "tool_calls", "function", "name", "arguments", "function_call"),
        *("usage", "prompt_tokens", "completion_tokens_details", "error", "object", "type", "code"),
        *("token_logprobs", "tokens", "top_logprobs", "token", "logprob", "data", "embedding"),
        *("embeddings", "float", "int8", "values", "indices", "results", "relevance_score"),
        *("score", "rankings", "generated_text", "details", "prefill", "done", "done_reason"),
        *("response", "thinking", "stop", "stop_type", "completion_probabilities", "item", "part"),
        *("output", "summary", "output_index", "item_id", "status", "incomplete_details"),
        *("content_block", "partial_json", "stop_reason", "input", "text_output", "meta_info"),
        *("output_log_probs", "output_token_logprobs", "segments", "top_tokens", "special"),
    ]
)
WORDS = st.sampled_from(
    [
        *("response.output_text.delta", "response.output_text.done", "response.completed"),
        *("response.output_item.added", "response.failed", "error", "message", "message_start"),
        *("content_block_start", "content_block_delta", "text_delta", "input_json_delta"),
        *("message_delta", "message_stop", "tool_use", "transcript.text.done", "response", "AAAA"),
    ]
)
SCALAR = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**300, 10**301)
    | st.floats()
    | st.text(max_size=6)
    | WORDS
)
VALUE = st.recursive(
    SCALAR,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(FIELDS | st.text(max_size=4), inner, max_size=6)
    ),
    max_leaves=30,
)


@given(DIALECT, VALUE, st.binary(max_size=8))
def test_any_json_is_read_by_every_dialect(name: str, document: Any, event: bytes) -> None:
    out: list[Event] = []
    dialect = DIALECTS[name]()
    dialect.chunk(event, document, out)
    dialect.chunk(event, document, out)
    dialect.body(document, out)
    dialect.overlong(event, json.dumps(document).encode(), out)
    assert all(isinstance(item, tuple) for item in out)


@given(DIALECT, FRAMING, st.lists(VALUE, min_size=1, max_size=4))
def test_any_json_is_read_to_its_end_in_every_framing(
    name: str, framing: Framing, documents: list[Any]
) -> None:
    texts = [json.dumps(document) for document in documents]
    body = {
        Framing.SSE: "".join(f"data: {text}\n\n" for text in texts),
        Framing.NDJSON: "\n".join(texts),
    }.get(framing, texts[0])
    assert type(read(name, framing, [body.encode()])[-1]) is Ended


@given(DIALECT, FRAMING, st.lists(st.binary(max_size=200), max_size=5), st.booleans())
def test_any_bytes_are_read_to_their_end(
    name: str, framing: Framing, pieces: list[bytes], opened: bool
) -> None:
    if opened:
        pieces = [b"data: " if framing is Framing.SSE else b"{", *pieces]
    assert type(read(name, framing, pieces)[-1]) is Ended


ENCODING = st.sampled_from(["gzip", "deflate", "br", "zstd", "gzip, br", "zstd, gzip"])


@given(DIALECT, FRAMING, ENCODING, st.lists(st.binary(max_size=200), max_size=5))
def test_any_bytes_pass_for_a_compressed_body(
    name: str, framing: Framing, encoding: str, pieces: list[bytes]
) -> None:
    read(name, framing, pieces, encoding)


@given(
    st.sampled_from(sorted(SAMPLES)), st.integers(0, 1 << 16), st.integers(0, 1 << 16), st.binary()
)
def test_a_damaged_body_is_read_to_its_end(name: str, a: int, b: int, junk: bytes) -> None:
    sample = SAMPLES[name]
    start, end = sorted((a % len(sample.body), b % len(sample.body)))
    body = sample.body[:start] + junk[:8] + sample.body[end:]
    assert type(read(sample.dialect, sample.framing, [body])[-1]) is Ended


REQUEST = st.dictionaries(
    st.sampled_from(
        [
            *(
                "messages",
                "role",
                "content",
                "text",
                "prompt",
                "system",
                "input",
                "inputs",
                "query",
            ),
            *("documents", "tools", "functions", "function", "name", "response_format", "type"),
            *("json_schema", "schema", "format", "options", "parameters", "grammar", "value"),
            *("structured_outputs", "json", "max_tokens", "stream", "n", "logprobs", "temperature"),
        ]
    ),
    VALUE,
    max_size=8,
)


@given(st.text(max_size=8), st.text(max_size=8), VALUE | REQUEST)
def test_any_request_has_facts(method: str, path: str, body: Any) -> None:
    facts = RequestFacts.parse(method, path, body)
    assert facts.known == (body is not None)
    assert facts.n >= 1
    assert facts.distinct_inputs <= facts.inputs


@pytest.mark.parametrize("key", ["input", "inputs", "documents", "messages", "tools", "options"])
@pytest.mark.parametrize("opening", ["[", '{"text":'])
def test_a_request_as_deep_as_a_parser_takes_has_facts(key: str, opening: str) -> None:
    # orjson takes 1024 levels; Python's own functions give up sooner.
    closing = "]" if opening == "[" else "}"
    for depth in range(900, 1024, 20):
        value = opening * depth + ("1" if closing == "}" else "") + closing * depth
        body = orjson.loads(f'{{"{key}": [{value}, {value}]}}')
        assert RequestFacts.parse("POST", "/v1/embeddings", body).known
