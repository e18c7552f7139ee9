"""The client's judgement depends on nothing of the sidecar's."""

from __future__ import annotations

import ast
import inspect
import json

import pytest

from extproc.demo import judge
from extproc.demo.recorded import Recording, Replay, load

BAD = {"bad-build"}


def body(
    content: str | None, tokens: int = 9, model: str = "good-build", **choice: object
) -> bytes:
    entry = {"message": {"content": content}, "finish_reason": "stop", **choice}
    message = {"model": model, "choices": [entry], "usage": {"completion_tokens": tokens}}
    return json.dumps(message).encode()


def corrupt(content: str | None, tokens: int = 9, model: str = "good-build") -> bool:
    return judge.is_corrupt(judge.read_json(body(content, tokens, model)), BAD)


@pytest.mark.parametrize("content", ["!!!!!!!!!!!!!!!!", " cannib" * 12, "", None, " \n \n"])
def test_degenerate_text_is_corrupt(content: str | None) -> None:
    assert corrupt(content)


@pytest.mark.parametrize("content", ["A kite flies.", "no no no", "!!!", "1 1 1 1 2 1 1 1 1"])
def test_ordinary_text_is_not(content: str) -> None:
    assert not corrupt(content)


def test_the_text_of_the_corrupt_build_is_corrupt_whatever_it_says() -> None:
    assert corrupt("A kite flies.", model="bad-build")


def test_no_text_for_no_tokens_is_an_empty_answer_and_not_a_fault() -> None:
    assert not corrupt("", tokens=0)


def test_null_logprobs_are_corrupt() -> None:
    logprobs = {"content": [{"token": "A", "logprob": None}]}
    assert judge.is_corrupt(judge.read_json(body("A kite flies.", logprobs=logprobs)), BAD)


def test_a_stream_is_read_as_the_whole_it_adds_up_to() -> None:
    parts = [
        {"model": "m", "choices": [{"delta": {"role": "assistant", "content": None}}]},
        {"model": "m", "choices": [{"delta": {"content": "A"}}]},
        {"model": "m", "choices": [{"delta": {"content": " kite"}, "finish_reason": "stop"}]},
        {"model": "m", "choices": [], "usage": {"completion_tokens": 2}},
    ]
    lines = b"".join(b"data: " + json.dumps(part).encode() + b"\n\n" for part in parts)
    answer = judge.read_stream(lines + b"data: [DONE]\n\n")
    assert (answer.text, answer.models, answer.completion_tokens) == ("A kite", {"m"}, 2)
    assert answer.finished
    assert not judge.read_stream(lines[: lines.index(b" kite")].rpartition(b"data:")[0]).finished


@pytest.mark.parametrize("broken", [b"upstream connect error", b"[]", b'"x"', b""])
def test_what_is_no_answer_is_said(broken: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON|Expecting value"):
        judge.read_json(broken)


def test_the_judge_imports_nothing_of_the_project() -> None:
    imported = [
        node.module or ""
        for node in ast.walk(ast.parse(inspect.getsource(judge)))
        if isinstance(node, ast.ImportFrom)
    ]
    assert imported
    assert not [name for name in imported if name.startswith("extproc")]


def recordings(build: str) -> list[Recording]:
    return load()[build]


@pytest.mark.parametrize("recording", recordings("corrupt"), ids=lambda r: r.pieces[:1])
def test_every_recorded_corrupt_shape_is_corrupt_by_its_body_alone(recording: Recording) -> None:
    whole = json.dumps(Replay([recording], "any-name")._whole(recording)).encode()
    assert judge.is_corrupt(judge.read_json(whole), set())


def test_no_recorded_healthy_answer_is_corrupt() -> None:
    found = recordings("healthy")
    assert len(found) > 10
    for recording in found:
        whole = json.dumps(Replay([recording], "any-name")._whole(recording)).encode()
        assert not judge.is_corrupt(judge.read_json(whole), set()), recording.prompt
