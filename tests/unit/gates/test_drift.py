"""How far two servers' numbers are apart."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.gates.drift import as_json, compare, from_json, not_finite, trace, uniform
from extproc.probes.logprobs import TokenLogprob

logprobs = st.floats(-20, 0)
tokens = st.sampled_from(["a", "b", "c", " d"])


@st.composite
def entries(draw: st.DrawFn) -> list[TokenLogprob]:
    made = draw(st.lists(st.tuples(tokens, logprobs), min_size=1, max_size=12))
    return [TokenLogprob(t, value, ((t, value), ("other", value - 1))) for t, value in made]


@given(entries(), entries())
def test_a_server_beside_itself_does_not_drift(
    given_: list[TokenLogprob], generated: list[TokenLogprob]
) -> None:
    one = [trace(given_, generated, 16)]
    found = compare(one, one)
    assert (found.mean, found.largest) == (0.0, 0.0)
    assert found.overlap == 1.0
    assert found.perplexity_drift == 0.0


@given(entries(), st.floats(0.001, 5))
def test_a_shift_of_every_number_is_the_drift(generated: list[TokenLogprob], shift: float) -> None:
    moved = [t._replace(logprob=(t.logprob or 0.0) - shift) for t in generated]
    found = compare([trace([], moved, 16)], [trace([], generated, 16)])
    assert found.mean == pytest.approx(shift, rel=1e-6)
    assert found.perplexity_drift == pytest.approx(math.exp(shift) - 1, rel=1e-6)


def say(*pairs: tuple[str, float], top: tuple[tuple[str, float], ...] = ()) -> list[TokenLogprob]:
    return [TokenLogprob(token, value, top or ((token, value),)) for token, value in pairs]


def test_what_follows_another_choice_is_not_compared() -> None:
    ours = say(("a", -0.1), ("x", -0.5), ("q", -9.0))
    ours[1] = ours[1]._replace(top=(("x", -0.5), ("b", -0.9)))
    theirs = say(("a", -0.1), ("b", -0.6), ("c", -0.1))
    (found,) = compare([trace([], ours, 16)], [trace([], theirs, 16)]).drifts
    assert (found.places, found.diverged) == (2, 1)
    assert found.largest == pytest.approx(0.3)  # of the baseline's token, by our list


def test_a_token_that_is_not_even_listed_is_as_far_as_the_list_reaches() -> None:
    ours = [TokenLogprob("x", -0.1, (("x", -0.1), ("y", -4.0)))]
    theirs = say(("b", -0.5))
    (found,) = compare([trace([], ours, 16)], [trace([], theirs, 16)]).drifts
    assert found.mean == pytest.approx(3.5)


def test_a_confident_other_answer_is_far_off_though_nothing_else_is_listed() -> None:
    ours = say(("!", -0.01))
    (found,) = compare([trace([], ours, 16)], [trace([], say(("OK", -0.01)), 16)]).drifts
    assert found.mean == pytest.approx(4.6, abs=0.1)  # what 99 % leave to all others


def test_one_bad_prompt_is_not_diluted_by_good_ones() -> None:
    good = trace([], say(("a", -0.1)), 16)
    bad = trace([], say(("a", -1.1)), 16)
    assert compare([good] * 9 + [bad], [good] * 10).mean == pytest.approx(1.0)


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_infinitely_far(value: float | None) -> None:
    ours = [trace([], [TokenLogprob("a", value, (("a", value),))], 16)]
    theirs = [trace([], say(("a", -0.1)), 16)]
    assert not_finite(ours) == 1
    assert compare(ours, theirs).mean == math.inf
    assert compare(ours, theirs).perplexity_drift == math.inf


def test_an_impossible_alternative_and_the_first_token_of_a_prompt_are_no_faults() -> None:
    first = TokenLogprob("a", None)
    second = TokenLogprob("b", -0.1, (("b", -0.1), ("c", -math.inf)))
    assert not_finite([trace([first, second], [], 16)]) == 0


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ([-10.803] * 6, 1),  # -ln(49152): zeroed weights
        ([-9999.0] * 2, 1),
        ([-0.1] * 6, 0),  # a proxy's constant
        ([-10.8, -10.8, -10.8], 0),  # too few to tell
        ([-10.8, -0.2, -10.8, -10.8], 0),
        ([], 0),
    ],
)
def test_the_same_tiny_probability_everywhere_is_no_softmax(
    values: list[float], count: int
) -> None:
    assert uniform([trace([], [TokenLogprob("a", v) for v in values], 16)]) == count


def test_another_tokenizer_is_told() -> None:
    ours = trace(say(("a", 0.0), ("b", -0.1)), [], 16)
    theirs = trace(say(("ab", 0.0)), [], 16)
    assert not compare([ours], [theirs]).drifts[0].same_tokens


@given(entries(), entries())
def test_a_saved_reference_is_what_was_measured(
    given_: list[TokenLogprob], generated: list[TokenLogprob]
) -> None:
    one = [trace(given_, generated, 16)]
    kept = from_json(json.loads(json.dumps(as_json(one))))
    assert compare(kept, one).largest == pytest.approx(0, abs=1e-5)
