"""However a text is cut the verdict is the same; nothing raises; memory stays bounded."""

from __future__ import annotations

import random
import tracemalloc
from itertools import cycle, islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.public import tokens_of
from extproc.detect import Inspector, Verdict
from extproc.wire import (
    Cause,
    Channel,
    Event,
    Failure,
    Finish,
    Layer,
    Logprobs,
    Malformed,
    NonFinite,
    RequestFacts,
    Scores,
    Terminator,
    Text,
    Texts,
    ToolCall,
    Unterminated,
    Usage,
)
from tests.unit.detect.say import PROSE
from tests.unit.detect.test_garble import MULTILINGUAL, SALAD, WELDED

ASKING = {
    "messages": [{"role": "user", "content": "Repeat it 12 times, as JSON."}],
    "response_format": {"type": "json_object"},
}

TEXTS = (
    PROSE * 3,
    PROSE + "!" * 200,
    PROSE + "They had to stay in the house. " * 12,
    SALAD * 2,
    WELDED,
    MULTILINGUAL * 2,
    "[PAD]" * 30,
    PROSE.replace(" ", "Ġ"),
    "the the of of and and to to a a in in " * 12,
    "".join(f"{n}. Check the cable and try again.\n" for n in range(60)),
    "The capital is Lisbon.<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nMore?",
    "```\n" + "0, " * 300 + "\n```\n" + PROSE,
    " " * 500 + "x",
)


def cut(text: str, places: list[int], ending: str) -> Verdict:
    inspector = Inspector()
    edges = [0, *sorted({place % (len(text) + 1) for place in places}), len(text)]
    for start, end in pairwise(edges):
        inspector.feed([Text(0, Channel.CONTENT, text[start:end])])
    inspector.feed([Finish(0, ending)])
    return inspector.finish()


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(TEXTS),
    st.lists(st.integers(0, 5000), max_size=40),
    st.sampled_from(["stop", "length"]),
)
def test_any_split_gives_the_same_findings(text: str, places: list[int], ending: str) -> None:
    assert cut(text, places, ending) == cut(text, [], ending)


@pytest.mark.parametrize("text", TEXTS)
def test_byte_sized_pieces_give_the_same_findings(text: str) -> None:
    assert cut(text, list(range(len(text))), "length") == cut(text, [], "length")


REQUESTS = st.sampled_from([None, RequestFacts.parse("POST", "/v1/chat/completions", ASKING)])


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(TEXTS),
    st.lists(st.integers(0, 5000), min_size=8, max_size=80),
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.sampled_from(Channel),
    REQUESTS,
)
def test_pieces_told_at_once_are_judged_as_pieces_told_apart(
    text: str,
    places: list[int],
    together: list[int],
    channel: Channel,
    request: RequestFacts | None,
) -> None:
    edges = [0, *sorted({place % len(text) for place in places} - {0}), len(text)]
    pieces = [text[start:end] for start, end in pairwise(edges)]
    apart, at_once = Inspector(request=request), Inspector(request=request)
    left = iter(pieces)
    for count in cycle(together):
        batch = tuple(islice(left, count))
        if not batch:
            break
        apart.feed([Text(0, channel, piece, 1) for piece in batch])
        at_once.feed([Texts(0, channel, batch, 1)])
        assert at_once.ordinary == apart.ordinary
    for inspector in (apart, at_once):
        inspector.feed([Finish(0, "length")])
    assert at_once.finish() == apart.finish()
    assert (at_once.judged, at_once.tokens) == (apart.judged, apart.tokens)


TEXT = st.one_of(
    st.text(max_size=300),
    st.sampled_from(TEXTS),
    st.builds(lambda unit, times: unit * times, st.text(max_size=12), st.integers(0, 60)),
)
NUMBER = st.one_of(st.none(), st.floats(), st.integers(-(10**6), 10**6).map(float))
EVENT: st.SearchStrategy[Event] = st.one_of(
    st.builds(
        Text,
        st.integers(-1, 3),
        st.sampled_from(Channel),
        TEXT,
        st.integers(0, 2),
        st.integers(0, 3),
    ),
    st.builds(ToolCall, st.integers(0, 2), st.integers(0, 2), st.text(max_size=200)),
    st.builds(
        Logprobs,
        st.integers(0, 2),
        st.just(("a", "b", "c")),
        st.lists(NUMBER, max_size=12).map(tuple),
        st.lists(st.lists(NUMBER, max_size=3).map(tuple), max_size=12).map(tuple),
    ),
    st.builds(Scores, st.just((0, 1)), st.lists(NUMBER, max_size=6).map(tuple)),
    st.builds(Finish, st.integers(0, 2), st.sampled_from(["stop", "length", "tool_calls", "?"])),
    st.builds(Usage, st.integers(-1, 99), st.integers(-1, 999), st.integers(-1, 99)),
    st.builds(NonFinite, st.just("$"), st.just("NaN")),
    st.builds(Failure, st.text(max_size=20), st.sampled_from(Cause)),
    st.builds(Malformed, st.sampled_from(Layer), st.just("byte 1")),
    st.just(Terminator()),
    st.just(Unterminated("[DONE]")),
)
BODY = st.dictionaries(
    st.sampled_from(
        ["messages", "prompt", "response_format", "tools", "max_tokens", "input", "documents"]
    ),
    st.recursive(
        st.none() | st.text(max_size=40) | st.integers(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["role", "content", "type", "json_schema", "schema", "name"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=8,
    ),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(EVENT, max_size=30), BODY)
def test_whatever_happens_raises_nothing(happened: list[Event], body: dict[str, object]) -> None:
    inspector = Inspector(request=RequestFacts.parse("POST", "/v1/chat/completions", body))
    for event in happened:
        before = inspector.corrupt
        inspector.feed([event])
        assert inspector.corrupt or not before
    verdict = inspector.finish()
    assert (verdict.first_token is not None) == (verdict.kind == "corrupt")
    assert len(verdict.findings) <= Inspector.MAX_FINDINGS + 1


def _long() -> dict[str, str]:
    rng = random.Random(3)
    letters = "abcdefghijklmnopqrstuvwxyz     "
    return {
        "prose": PROSE * 300,
        "loop": "the cat sat on a mat. " * 5000,
        "noise": "".join(rng.choice(letters) for _ in range(100_000)),
        "emoji": "😀 😃 abc " * 8000,
        "chinese": "今天早上我先去市场买了新鲜的蔬菜然后沿着河边慢慢走回家" * 3000,
        "blank": "\n \n  " * 20_000,
    }


@pytest.mark.parametrize("kind", _long())
def test_a_stream_of_any_length_is_held_in_64_kib(kind: str) -> None:
    deltas = tokens_of(_long()[kind])[:30_000]
    warm = Inspector()
    for delta in deltas[:2000]:
        warm.feed([Text(0, Channel.CONTENT, delta, 1)])
    warm.finish()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        inspector = Inspector()
        for delta in deltas:
            inspector.feed([Text(0, Channel.CONTENT, delta, 1)])
        held, peak = (memory - before for memory in tracemalloc.get_traced_memory())
    finally:
        tracemalloc.stop()
    assert held <= 40 * 1024
    assert peak <= 64 * 1024


def test_more_channels_than_are_worth_the_memory_are_left_alone() -> None:
    inspector = Inspector()
    for choice in range(500):
        inspector.feed([Text(choice, Channel.CONTENT, "!" * 8, 1)])
    assert len(inspector._channels) == Inspector.MAX_CHANNELS
