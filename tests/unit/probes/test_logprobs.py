from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.detect import Kind, Verdict
from extproc.probes.logprobs import TokenLogprob, of_documents
from extproc.probes.reply import Timings, assemble

CHAT = {
    "choices": [
        {
            "index": 0,
            "logprobs": {
                "content": [
                    {
                        "id": 7,
                        "token": "a",
                        "logprob": -0.5,
                        "top_logprobs": [
                            {"token": "a", "logprob": -0.5},
                            {"token": "b", "logprob": -1.5},
                        ],
                    },
                    {"token": "c", "logprob": None, "top_logprobs": []},
                ]
            },
        }
    ]
}
LISTS = {
    "choices": [
        {
            "index": 0,
            "logprobs": {
                "tokens": ["p", "q", "a"],
                "token_logprobs": [None, -2.0, -0.5],
                "top_logprobs": [None, {"q": -2.0}, {"a": -0.5, "b": -1.5}],
            },
        }
    ]
}
RANKED: list[Any] = [
    None,
    {
        "11": {"logprob": -2.0, "rank": 5, "decoded_token": "q"},
        "12": {"logprob": -0.1, "rank": 1, "decoded_token": "r"},
    },
]
A = TokenLogprob("a", -0.5, (("a", -0.5), ("b", -1.5)))


def test_chat_logprobs_are_read() -> None:
    found = of_documents([CHAT])
    assert found.generated == (A._replace(id=7), TokenLogprob("c", None))
    assert found.prompt == ()


def test_an_echoed_prompt_is_told_apart_from_what_follows() -> None:
    found = of_documents([LISTS], generated_tokens=1)
    assert found.prompt == (TokenLogprob("p", None), TokenLogprob("q", -2.0, (("q", -2.0),)))
    assert found.generated == (A,)


def test_a_server_that_ignores_echo_has_no_prompt_logprobs() -> None:
    assert of_documents([LISTS], generated_tokens=3).prompt == ()


@pytest.mark.parametrize(
    "document",
    [
        {"choices": [{"index": 0, "prompt_logprobs": RANKED}]},
        {"choices": [], "prompt_logprobs": RANKED},
    ],
    ids=["in the choice", "beside the choices"],
)
def test_prompt_logprobs_of_vllm_are_read(document: dict[str, Any]) -> None:
    first, second = of_documents([document]).prompt
    assert first == TokenLogprob("", None)
    assert second == TokenLogprob("q", -2.0, (("r", -0.1), ("q", -2.0)), 11)


def test_an_echoed_prompt_that_is_told_twice_counts_once() -> None:
    choice = {**LISTS["choices"][0], "prompt_logprobs": RANKED}
    found = of_documents([{"choices": [choice]}], generated_tokens=1)
    assert [token.logprob for token in found.prompt] == [None, -2.0]
    assert found.generated == (A,)


def test_native_logprobs_of_llama_cpp_are_read() -> None:
    content = CHAT["choices"][0]["logprobs"]["content"]  # type: ignore[index]
    found = of_documents([{"content": "ac", "completion_probabilities": content}])
    assert found.generated[0] == A._replace(id=7)


def test_probabilities_become_logarithms() -> None:
    older = [
        {"content": "a", "probs": [{"tok_str": "a", "prob": 0.5}, {"tok_str": "b", "prob": 0}]}
    ]
    (found,) = of_documents([{"completion_probabilities": older}]).generated
    assert found == TokenLogprob("a", math.log(0.5), (("a", math.log(0.5)), ("b", -math.inf)))
    sampled = [{"token": "a", "prob": 1.0, "top_probs": [{"token": "a", "prob": 1.0}], "id": 3}]
    (found,) = of_documents([{"completion_probabilities": sampled}]).generated
    assert found == TokenLogprob("a", 0.0, (("a", 0.0),), 3)


def test_chunks_of_a_stream_follow_each_other() -> None:
    assert len(of_documents([CHAT, CHAT]).generated) == 4


def test_only_the_first_choice_counts() -> None:
    other = {"choices": [{**CHAT["choices"][0], "index": 1}]}
    assert of_documents([other]).generated == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "logprobs",
                    "content",
                    "prompt_logprobs",
                    "top_logprobs",
                    "tokens",
                    "completion_probabilities",
                    "probs",
                    "prob",
                    "token",
                    "index",
                    "logprob",
                    "12",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.lists(JSON, max_size=3), st.integers(-1, 5))
def test_no_document_raises(documents: list[Any], generated: int) -> None:
    of_documents(documents, generated)


@given(st.binary(max_size=200), st.booleans())
def test_no_body_raises(body: bytes, streamed: bool) -> None:
    verdict = Verdict(Kind.UNCHECKED)
    reply = assemble("/v1/chat/completions", 200, body, streamed, [], verdict, Timings(0, 0))
    assert reply.text == ""
