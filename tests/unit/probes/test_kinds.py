from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from extproc.config.golden import Golden, load_golden
from extproc.probes import Capabilities, Client, ClientSettings, Support, Target, Way
from extproc.probes.budget import Budget, Cost
from extproc.probes.filler import Tokens, filler
from extproc.probes.kinds import (
    NAMES,
    Band,
    Judgement,
    Outcome,
    Room,
    Skip,
    make_probes,
)
from extproc.probes.runner import Runner
from tests.unit.probes.server import CHAT, COMPLETIONS, Answer, Server, chat, says, sends

PROSE = "The sky looks blue because air scatters short waves of light more than long ones."
FINE = Budget(Cost(10_000, 10**9, 10**6))


async def judged(kind: str, answers: dict[str, Answer], **room: Any) -> Judgement:
    async with Server(answers) as server, Client(Target(server.url, "m")) as client:
        runner = Runner(client, FINE, Tokens(), lambda: 0.0)
        return (await runner.probe(make_probes()[kind], Room("m", **room))).judgement


def stream(text: str) -> Answer:
    words = text.split(" ")
    return streamed([word + " " * (at + 1 < len(words)) for at, word in enumerate(words)])


def letters(text: str) -> Answer:
    return streamed(list(text))


def streamed(pieces: list[str], finish: str = "stop") -> Answer:
    events: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces
    ]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    usage = {"prompt_tokens": 2000, "completion_tokens": len(pieces)}
    events.append({"choices": [], "usage": usage})
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    return sends(body.encode(), "text/event-stream")


def called(*arguments: str, name: str = "get_weather") -> Answer:
    calls = [
        {"index": at, "type": "function", "function": {"name": name, "arguments": each}}
        for at, each in enumerate(arguments)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    return says({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})


def weighed(*values: float | None, alternatives: int = 3) -> Answer:
    content = [
        {
            "token": f" t{at}",
            "logprob": value,
            "top_logprobs": [
                {"token": f" t{at}/{n}", "logprob": value - n if value is not None else None}
                for n in range(alternatives)
            ],
        }
        for at, value in enumerate(values)
    ]
    message = {"role": "assistant", "content": "Some text here."}
    return says({"choices": [{"index": 0, "message": message, "logprobs": {"content": content}}]})


def embedded(*vectors: Any) -> Answer:
    return says({"data": [{"index": at, "embedding": v} for at, v in enumerate(vectors)]})


RIGHT = {"city": "Paris", "country": "France", "inhabitants": 2, "capital": True}
A, B, C = [0.1, 0.2, -0.3], [0.5, 0.1, 0.2], [0.3, -0.4, 0.1]

PASSED, FAILED = Outcome.PASSED, Outcome.FAILED
SKIPPED, ERROR = Outcome.SKIPPED, Outcome.ERROR
LEGIT = {"error": {"message": "This server does not support embeddings.", "code": 501}}
NAN = {"error": {"message": "Out of range float values are not JSON compliant", "code": 400}}
EMBEDDINGS = "/v1/embeddings"
LINES = """
golden    | the right answer | passed  |       |
golden    | after a thought  | passed  |       |
golden    | another answer   | failed  |       | probe_golden.mismatch
golden    | garbage          | failed  | proof | repetition.
chat      | prose            | passed  |       |
chat      | garbage          | failed  | proof | repetition.
json      | by its schema    | passed  |       |
json      | broken           | failed  |       | structure.json
json      | prose            | failed  |       | structure.
tools     | a call           | passed  |       |
tools     | two calls        | passed  |       |
tools     | text             | failed  |       | probe_tools.no_call
tools     | a wrong type     | failed  |       | probe_tools.arguments
tools     | one of two wrong | failed  |       | probe_tools.arguments
tools     | another function | failed  |       | structure.
tools     | NaN              | failed  | proof | nonfinite.
logprobs  | ordinary         | passed  |       |
logprobs  | one null         | failed  | proof | probe_logprobs.nan
logprobs  | nulls            | failed  | proof | logprobs.null
logprobs  | constant         | failed  | proof | logprobs.identical
logprobs  | certain          | passed  |       |
logprobs  | none             | skipped |       |
embedding | different        | passed  |       |
embedding | a null           | failed  | proof | nonfinite.vector
embedding | zeros            | failed  | proof | vectors.
embedding | identical        | failed  | proof | vectors.
embedding | one lost         | failed  | proof | vectors.count
"""
ANSWERS: dict[str, Answer] = {
    "golden: the right answer": chat(" OK\n"),
    "golden: after a thought": chat("<think>Hm.</think>\n\nOK"),
    "golden: another answer": chat("I would rather say something else."),
    "golden: garbage": chat("!" * 32),
    "chat: prose": stream(PROSE),
    "chat: garbage": letters("!" * 40),
    "json: by its schema": chat(json.dumps(RIGHT)),
    "json: broken": chat('{"city": "Par'),
    "json: prose": chat(PROSE),
    "tools: a call": called('{"city": "Paris"}'),
    "tools: two calls": called('{"city": "Paris"}', '{"city": "Rome"}'),
    "tools: text": chat(PROSE),
    "tools: a wrong type": called('{"city": 7}'),
    "tools: one of two wrong": called('{"city": "Paris"}', "{}"),
    "tools: another function": called("{}", name="f"),
    "tools: NaN": says(NAN, 400),
    "logprobs: ordinary": weighed(-0.1, -1.5, -0.7, -2.0, -0.3),
    "logprobs: one null": weighed(-0.1, None, -0.7, -2.0, -0.3),
    "logprobs: nulls": weighed(None, None, None, None),
    "logprobs: constant": weighed(*[-10.8] * 5),
    "logprobs: certain": weighed(*[0.0] * 8),
    "logprobs: none": chat(PROSE),
    "embedding: different": embedded(A, B, C),
    "embedding: a null": embedded(A, [None, 0.1, 0.2], C),
    "embedding: zeros": embedded(A, [0.0, 0.0, 0.0], C),
    "embedding: identical": embedded(A, A, A),
    "embedding: one lost": embedded(A, B),
}


@pytest.mark.parametrize("line", LINES.strip().splitlines())
async def test_an_answer_is_judged(line: str) -> None:
    kind, what, outcome, proof, finding = (part.strip() for part in line.split("|"))
    path = EMBEDDINGS if kind == "embedding" else CHAT
    found = await judged(kind, {path: ANSWERS[f"{kind}: {what}"]})
    assert found.outcome.value == outcome, found
    assert found.proof is bool(proof), found
    names = [each.name for each in found.findings]
    assert not finding or any(name.startswith(finding) for name in names), names


async def test_uniform_alternatives_are_proof() -> None:
    entry = {"token": "a", "top_logprobs": [{"token": str(n), "logprob": -7.0} for n in range(5)]}
    content = [{**entry, "logprob": -7.0 - at / 10} for at in range(6)]
    message = {"role": "assistant", "content": PROSE}
    answer = says({"choices": [{"index": 0, "message": message, "logprobs": {"content": content}}]})
    found = await judged("logprobs", {CHAT: answer})
    assert [f.name for f in found.findings] == ["probe_logprobs.uniform"]
    assert found.proof


async def test_a_forced_format_in_which_a_small_model_goes_round_proves_nothing() -> None:
    """SmolLM2-135M does so under guided decoding, in good health."""
    loop = '{"city": "Paris", "country": "Paris", ' * 12
    choice = {"index": 0, "message": {"role": "assistant", "content": loop}}
    usage = {"prompt_tokens": 50, "completion_tokens": 192}
    cut = {"choices": [choice | {"finish_reason": "length"}], "usage": usage}
    found = await judged("json", {CHAT: says(cut)})
    assert found.outcome is FAILED
    assert not found.proof


async def test_a_nan_in_a_base64_embedding_is_found() -> None:
    bad = base64.b64encode(struct.pack("<3f", 0.1, float("nan"), 0.2)).decode()
    found = await judged("embedding", {EMBEDDINGS: embedded(A, bad, C)})
    assert found.outcome is FAILED
    assert found.proof


async def test_null_prompt_logprobs_are_found_where_they_are_told() -> None:
    ranked = [None] + [
        {str(at): {"logprob": None, "rank": 1, "decoded_token": "a"}} for at in range(4)
    ]
    choice = {"index": 0, "text": PROSE, "finish_reason": "stop", "prompt_logprobs": ranked}
    capabilities = Capabilities(ways={Way.PROMPT: Support.YES})
    found = await judged(
        "logprobs", {COMPLETIONS: says({"choices": [choice]})}, capabilities=capabilities
    )
    assert [f.name for f in found.findings] == ["probe_logprobs.nan"]


@pytest.mark.parametrize(
    ("status", "content", "outcome"),
    [
        (501, LEGIT, SKIPPED),
        (404, {"detail": "Not Found"}, SKIPPED),
        (400, NAN, FAILED),
        (429, {"error": "slow down"}, ERROR),
        (503, {"error": {"message": "Loading model"}}, ERROR),
        (401, {"error": "who are you?"}, ERROR),
    ],
)
async def test_a_refusal_is_no_failure_unless_it_admits_a_nan(
    status: int, content: Any, outcome: Outcome
) -> None:
    found = await judged("embedding", {EMBEDDINGS: says(content, status)})
    assert found.outcome is outcome


@pytest.mark.parametrize("kind", NAMES)
async def test_a_server_that_is_away_is_an_error_of_every_kind(kind: str) -> None:
    settings = ClientSettings(retries=0)
    async with Client(Target("http://127.0.0.1:9", "m"), settings) as client:
        runner = Runner(client, FINE, Tokens(), lambda: 0.0)
        found = await runner.probe(make_probes()[kind], Room("m"))
    assert found.judgement == Judgement(ERROR, "refused")


@pytest.mark.parametrize("kind", NAMES)
def test_a_request_stands_in_its_class(kind: str) -> None:
    tokens = Tokens(0.25)
    for band in (Band("short", 0, 4000), Band("middle", 4000, 16384), Band("long", 16384)):
        for request in make_probes()[kind].requests(Room("m", band=band, tokens=tokens)):
            size = len(json.dumps(request.body))
            assert size == request.size
            assert band.low < size
            assert band.high is None or size <= band.high


@pytest.mark.parametrize("kind", NAMES)
def test_what_a_model_cannot_take_is_skipped_and_said(kind: str) -> None:
    room = Room("m", Capabilities(max_context=512), Band("long", 16384))
    with pytest.raises(Skip, match=r"512|needs"):
        make_probes()[kind].requests(room)


def test_what_the_server_does_not_offer_is_not_asked_for() -> None:
    capabilities = Capabilities(
        ways=dict.fromkeys(Way, Support.NO), embeddings=Support.NO, tools=Support.NO
    )
    for kind in ("logprobs", "embedding", "tools"):
        with pytest.raises(Skip):
            make_probes()[kind].requests(Room("m", capabilities))


async def test_a_server_that_cuts_prompts_fails_the_long_context() -> None:
    tokens = Tokens(0.25)
    async with Server({CHAT: stream(PROSE)}) as server, Client(Target(server.url, "m")) as client:
        runner = Runner(client, FINE, tokens, lambda: 0.0)
        room = Room("m", band=Band("long", 16384), tokens=tokens, long_tokens=8192)
        found = await runner.probe(make_probes()["long"], room)
    assert [f.name for f in found.judgement.findings] == ["probe_long.truncated"]
    assert not found.judgement.proof


async def test_numbers_in_the_filler_excuse_no_repetition() -> None:
    """The notes before the question are numbered; nobody asked for a row of sixes."""
    found = await judged("long", {CHAT: streamed(["6"] * 32, "length")}, band=Band("long", 4000))
    assert found.outcome is FAILED
    assert found.proof


async def test_an_answer_through_the_gateway_is_no_judgement() -> None:
    async def through(request: web.Request) -> web.StreamResponse:
        response = await chat("!" * 48)(request)
        response.headers["x-semantic-unit"] = "unit-b"
        return response

    found = await judged("golden", {CHAT: through})
    assert found.outcome is ERROR
    assert "unit-b" in found.reason


async def test_the_engines_own_count_corroborates() -> None:
    counts = iter(["0.0", "1.0"])

    async def metrics(request: Any) -> Any:
        text = f'vllm:corrupted_requests_total{{engine="0"}} {next(counts)}\n'
        return await sends(text.encode(), "text/plain")(request)

    answers = {CHAT: stream(PROSE), "/metrics": metrics}
    found = await judged("chat", answers, capabilities=Capabilities(counters=True))
    assert found.outcome is FAILED
    assert found.proof
    assert found.findings[-1].name == "probe_counter.corrupted_requests"


@pytest.mark.parametrize("count", ["e", "..", "+", "1e", "-1", "NaN", "1 2"])
async def test_a_count_that_is_none_says_nothing(count: str) -> None:
    text = f"vllm:corrupted_requests_total {count}\n"
    answers = {CHAT: stream(PROSE), "/metrics": sends(text.encode(), "text/plain")}
    found = await judged("chat", answers, capabilities=Capabilities(counters=True))
    assert found.outcome is PASSED


@given(st.integers(0, 50_000), st.integers(0, 3))
def test_filler_has_its_length_and_no_two_lines_alike(size: int, seed: int) -> None:
    text = filler(size, seed)
    assert size - 1 <= len(text.encode()) <= size + 120
    lines = text.splitlines()
    assert len(set(lines)) == len(lines)
    assert text == filler(size, seed)


def test_golden_prompts_are_compared_as_they_say(tmp_path: Path) -> None:
    file = tmp_path / "golden.yaml"
    file.write_text(
        '- {prompt: a, expected: "4"}\n'
        "- {prompt: b, expected: Par, match: prefix}\n"
        "- {prompt: c, expected: sky, match: contains, classes: [short]}\n"
        r'- {prompt: d, expected: "^\\d+$", match: regex, max_tokens: 4}' + "\n"
    )
    exact, prefix, contains, regex = load_golden(file)
    assert exact.met(" 4 \n")
    assert not exact.met("4.")
    assert prefix.met("Paris")
    assert contains.met("the sky is")
    assert regex.met("42")
    assert not regex.met("42 or so")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "line 1"),
        ("a: 1", "must be a list"),
        ("[]", "must be a list"),
        ("- {prompt: a}", r"\[0\].expected"),
        ("- {prompt: a, expected: b, maximum: 3}", r"\[0\].maximum"),
        ("- {prompt: a, expected: '(', match: regex}", "no regular expression"),
        ("- {prompt: a, expected: b, match: fuzzy}", r"\[0\].match"),
    ],
)
def test_a_file_of_golden_prompts_that_is_none_is_refused_with_the_place(
    tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "golden.yaml"
    file.write_text(text)
    with pytest.raises(ValueError, match=said):
        load_golden(file)


def test_a_golden_prompt_for_other_classes_is_left_out() -> None:
    golden = Golden(prompt="a", expected="b", classes=["long"])
    with pytest.raises(Skip, match="short"):
        make_probes([golden])["golden"].requests(Room("m"))
