"""Embeddings and scores in every layout."""

from __future__ import annotations

import base64
import json
import math
import struct
from typing import Any

import pytest

from extproc.wire import Ended, Event, Form, Framing, Layer, Malformed, Scores, Vector
from tests.unit.wire.reading import read
from tests.unit.wire.samples.build import floats

NAN = float("nan")


def vectors(document: Any) -> list[Event]:
    events = read("embeddings", Framing.JSON, [json.dumps(document).encode()])
    return [event for event in events if type(event) in (Vector, Malformed)]


@pytest.mark.parametrize(
    ("document", "shapes"),
    [
        ([[0.5, 1.5], [2.5, 3.5]], [(2,), (2,)]),  # TEI /embed
        ([[[0.5, 1.5], [2.5, 3.5], [4.5, 5.5]]], [(3, 2)]),  # TEI /embed_all
        ([[{"index": 3, "value": 0.5}]], [(1,)]),  # TEI /embed_sparse
        ([0.5, 1.5, 2.5], [(3,)]),  # a feature-extraction pipeline
        ({"embedding": [0.5, 1.5]}, [(2,)]),  # Ollama, older llama.cpp
        ({"embeddings": [[0.5], [1.5]]}, [(1,), (1,)]),  # Ollama, Cohere
        ([{"index": 0, "embedding": [[0.5, 1.5]]}], [(2,)]),  # llama.cpp
        ([{"index": 0, "embedding": [[0.5, 1.5], [2.5, 3.5]]}], [(2, 2)]),  # without pooling
        ({"data": [{"index": 0, "data": [[0.5, 1.5], [2.5, 3.5]]}]}, [(2, 2)]),  # vLLM /pooling
        ({"embeddings": {"int8": [[1, -2]], "ubinary": [[255]]}}, [(2,), (1,)]),  # Cohere
        ({"data": [{"embedding": {"indices": [3, 9], "values": [0.5, 1.5]}}]}, [(2,)]),
        ({"data": [{"sparse_embedding": {"the": 0.5}}]}, [(1,)]),
    ],
)
def test_every_layout_is_found(document: Any, shapes: list[tuple[int, ...]]) -> None:
    found = vectors(document)
    assert [event.shape for event in found if type(event) is Vector] == shapes
    assert len(found) == len(shapes)


def test_nulls_and_non_finite_values_are_counted_apart() -> None:
    (event,) = vectors({"data": [{"embedding": [0.5, None, NAN, math.inf, None]}]})
    assert isinstance(event, Vector)
    assert (event.nulls, event.non_finite) == (2, 2)
    assert math.isnan(event.array[1])
    assert event.array[0] == 0.5


def test_nan_hidden_in_base64_is_found() -> None:
    packed = base64.b64encode(struct.pack("<3f", NAN, 0.5, -math.inf)).decode()
    (event,) = vectors({"data": [{"embedding": packed}]})
    assert isinstance(event, Vector)
    assert (event.form, event.nulls, event.non_finite) == (Form.BASE64, 0, 2)


def test_base64_of_single_bytes_is_integers() -> None:
    packed = base64.b64encode(bytes([1, 255, 128])).decode()
    (event,) = vectors({"data": [{"embedding": packed}]})
    assert event == Vector(0, floats(1, -1, -128), (3,), Form.INTEGER)


@pytest.mark.parametrize(
    "value", ["=", "é", [1, "a"], [[1], 2], [10**400], 7, [True], [{}, 1, [2]]]
)
def test_what_is_no_vector_is_malformed_or_holds_no_number(value: Any) -> None:
    for event in vectors({"data": [{"embedding": value}]}):
        if type(event) is Malformed:
            assert event == Malformed(Layer.SCHEMA, "embedding 0")
        else:
            assert isinstance(event, Vector)
            assert event.array.size == event.nulls


@pytest.mark.parametrize(
    "document",
    [
        {"results": [{"index": 1, "relevance_score": 0.5}, {"index": 0, "relevance_score": None}]},
        {"results": [{"index": 1, "score": 0.5}, {"index": 0, "score": "high"}]},
        {"data": [{"index": 1, "score": 0.5}, {"index": 0, "score": None}]},
        {"rankings": [{"index": 1, "logit": 0.5}, {"index": 0, "logit": None}]},
        [{"index": 1, "score": 0.5}, {"index": 0, "score": None}],
    ],
)
def test_scores_in_every_layout(document: Any) -> None:
    events = read("rerank", Framing.JSON, [json.dumps(document).encode()])
    assert events == [Scores((1, 0), (0.5, None)), Ended(False, False)]


def test_bare_scores_stand_in_the_order_of_the_request() -> None:
    assert read("rerank", Framing.JSON, [b"[0.5,null,1]"])[0] == Scores((0, 1, 2), (0.5, None, 1.0))
