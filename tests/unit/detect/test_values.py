"""Log probabilities, embeddings, scores: what a broken engine writes, and look-alikes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from extproc.detect import Kind
from extproc.wire import Event, Finish, Form, Logprobs, NonFinite, RequestFacts, Scores, Vector
from tests.unit.detect.say import events, names

UNIFORM = -math.log(49152)


def logprobs(*values: float | None, top: tuple[tuple[float | None, ...], ...] = ()) -> list[Event]:
    tokens = tuple("t" for _ in values)
    return [Logprobs(0, tokens, tuple(values), top), Finish(0, "stop")]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ((None, None, None, None), "null"),
        ((-0.5, -0.2, None, -0.1, None), "null"),
        ((UNIFORM,) * 9, "identical"),
        ((-3.1415,) * 5, "identical"),
        ((-9999.0,) * 4, "clamped"),
        ((-0.2, 1.25, 7.0), "positive"),
    ],
)
def test_values_that_no_softmax_gives_are_corrupt(
    values: tuple[float | None, ...], reason: str
) -> None:
    assert names(events(logprobs(*values))) == {f"logprobs.{reason}"}


@pytest.mark.parametrize(
    "values",
    [
        (None, -0.3, -1.2, -0.01, -2.0),
        (0.0,) * 40,
        (-0.1, -9999.0, -0.2, -0.3),
        (-1e-7, 0.0005, -0.2),
        (-0.5, -0.5, -0.5, -1.0, -0.5),
        (-3.4028e38, -0.2, -0.1, -0.4),
    ],
)
def test_values_that_healthy_engines_write_are_clean(values: tuple[float | None, ...]) -> None:
    assert events(logprobs(*values)).kind is Kind.CLEAN


def test_improbable_alternatives_that_are_all_alike_are_flat() -> None:
    top = tuple((UNIFORM,) * 5 for _ in range(6))
    values = (-10.8, -10.7, -10.9, -10.8, -10.7, -10.6)
    assert "logprobs.flat" in names(events(logprobs(*values, top=top)))


def test_log_probabilities_add_up_over_chunks() -> None:
    chunks: list[Event] = [Logprobs(0, ("!",), (None,)) for _ in range(4)]
    assert "logprobs.null" in names(events(chunks))
    apart: list[Event] = [Logprobs(choice, ("a",), (None,)) for choice in range(4)]
    assert events([*apart, Finish(0, "stop")]).kind is Kind.CLEAN


def test_a_literal_nan_in_json_is_corrupt() -> None:
    assert "nonfinite.literal" in names(events([NonFinite("$.a", "NaN")]))


def vector(position: int, values: list[float], form: Form = Form.FLOAT, nulls: int = 0) -> Vector:
    data = np.array(values, dtype="<f8").tobytes()
    return Vector(position, data, (len(values),), form, nulls)


WAVE = [math.sin(i) / 8 for i in range(64)]
OTHER = [math.cos(i * 1.7) / 8 for i in range(64)]


@pytest.mark.parametrize(
    ("vectors", "reason"),
    [
        ([vector(0, [0.0] * 64)], "vectors.zero"),
        ([vector(0, [1e-38] * 64)], "vectors.tiny"),
        ([vector(0, [3e28, *WAVE])], "vectors.huge"),
        ([vector(0, [0.125] * 64)], "vectors.constant"),
        ([vector(0, [])], "vectors.empty"),
        ([vector(0, WAVE), vector(1, WAVE[:32])], "vectors.dimensions"),
        ([vector(0, WAVE, nulls=3)], "nonfinite.vector"),
    ],
)
def test_vectors_that_say_nothing_are_corrupt(vectors: list[Event], reason: str) -> None:
    verdict = events(vectors)
    assert verdict.kind is Kind.CORRUPT
    assert reason in names(verdict)


def embedding_of(*inputs: str) -> RequestFacts:
    return RequestFacts.parse("POST", "/v1/embeddings", {"input": list(inputs)})


def test_equal_vectors_are_judged_by_their_inputs() -> None:
    same: list[Event] = [vector(0, WAVE), vector(1, WAVE)]
    assert events(same, embedding_of("a", "b")).kind is Kind.CORRUPT
    assert events(same, embedding_of("a", "a")).kind is Kind.CLEAN
    assert events(same).kind is Kind.SUSPECT


def test_a_missing_vector_is_corrupt() -> None:
    assert "vectors.count" in names(events([vector(0, WAVE)], embedding_of("a", "b", "c")))


def test_ordinary_vectors_are_clean() -> None:
    assert events([vector(0, WAVE), vector(1, OTHER)], embedding_of("a", "b")).kind is Kind.CLEAN
    sparse = [0.0] * 60 + [0.5, 0.2, 0.0, 0.1]
    assert events([vector(0, sparse)]).kind is Kind.CLEAN
    packed = vector(0, [float(i % 256 - 128) for i in range(64)], Form.INTEGER)
    assert events([packed]).kind is Kind.CLEAN


def ranking_of(*documents: str) -> RequestFacts:
    body = {"query": "q", "documents": list(documents)}
    return RequestFacts.parse("POST", "/v1/rerank", body)


def scores(*values: float | None) -> list[Event]:
    return [Scores(tuple(range(len(values))), values)]


def test_scores_that_rank_nothing_are_corrupt() -> None:
    assert events(scores(0.5, 0.5, 0.5)).kind is Kind.CORRUPT
    assert events(scores(0.8, None, 0.1)).kind is Kind.CORRUPT
    assert events(scores(0.8, math.nan)).kind is Kind.CORRUPT
    assert events(scores(0.91, 0.91), ranking_of("a", "b")).kind is Kind.CORRUPT


def test_scores_that_may_be_right_are_not() -> None:
    assert events(scores(1.0, 0.0)).kind is Kind.CLEAN
    assert events(scores(0.91, 0.91), ranking_of("a", "a")).kind is Kind.CLEAN
    assert events(scores(0.3)).kind is Kind.CLEAN
    assert events(scores(0.0, 0.0)).kind is not Kind.CORRUPT
