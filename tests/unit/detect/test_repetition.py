"""Loops, near-loops, stutter, and what only looks like them."""

from __future__ import annotations

import random

import pytest

from extproc.detect import Inspector, Kind
from extproc.wire import Channel, Text
from tests.unit.detect.say import PROSE, asking, names, streamed, whole


@pytest.mark.parametrize("token", ["!", " the", "G", "igui", "?", " gestational", "極", "์"])
def test_one_token_from_the_start_is_caught_within_sixteen(token: str) -> None:
    verdict = streamed([token] * 64, "length")
    assert verdict.kind is Kind.CORRUPT
    assert verdict.first_token is not None
    assert verdict.first_token <= 16


@pytest.mark.parametrize(
    "unit",
    [" no", "!", " and so", " I will not answer that.", "ha ha ho ", "然后继续，", " card:"],
)
def test_a_loop_in_the_middle_is_caught_within_64_tokens_of_its_start(unit: str) -> None:
    inspector = Inspector()
    start = streamed_into(inspector, PROSE)
    for _ in range(80):  # a copy at a time: a broken engine merges nothing
        streamed_into(inspector, unit)
    assert inspector.first_token is not None
    assert start < inspector.first_token <= start + 64


def streamed_into(inspector: Inspector, text: str) -> int:
    from bench.public import tokens_of

    for token in tokens_of(text):
        inspector.feed([Text(0, Channel.CONTENT, token, 1)])
    return inspector.tokens


@pytest.mark.parametrize("size", [3, 40, 120, 764, 1800])
def test_a_unit_of_any_length_that_the_token_limit_cut_off_is_a_loop(size: int) -> None:
    unit = (PROSE * 5)[: size - 1] + "|"
    assert whole(PROSE[:90] + unit * max(9, 200 // size), "length").kind is Kind.CORRUPT


def test_a_loop_is_seen_through_any_phase_of_its_unit() -> None:
    unit = "They had to stay in the house. "
    for cut in range(len(unit)):
        assert whole(PROSE + unit * 6 + unit[:cut], "length").kind is Kind.CORRUPT


@pytest.mark.parametrize(
    "text",
    [
        PROSE + "\n\n" + "-" * 80 + "\n\n" + PROSE,
        "| a | b |\n|---|---|\n" + "| 0 | 0 |\n" * 12,
        '```json\n{"data": [' + "0, " * 199 + "0]}\n```",
        "```asm\n" + "    nop\n" * 48 + "    ret\n```",
        "Chapter 1 " + "." * 50 + " 14\nChapter 2 " + "." * 50 + " 28\n",
        "La la la la la, la la la la la.\n" * 2 + PROSE,
        "at tree.Node.depth(Node.java:41)\n" * 30,
        "wwwwwwwwwwwwww 草生える",
        "อยากไปเที่ยวมากกกกกกก 5555555555 ตลกมากกกก",
        "ㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋㅋ 진짜 웃기다 ㅠㅠㅠㅠㅠㅠ",
        "data:image/png;base64,iVBORw0KGgo" + "A" * 60 + "M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
        "AGCT" * 20 + "AACGT",
        "x-x-x-x-x-x-x-x-|" * 6,
        " ".join("0123456789"[i % 7] for i in range(150)),
    ],
)
def test_repetition_that_formats_and_people_use_is_no_loop(text: str) -> None:
    assert whole(text).kind is not Kind.CORRUPT
    assert streamed(text).kind is not Kind.CORRUPT


def test_what_was_asked_for_is_no_loop() -> None:
    request = asking('Repeat the word "word" 100 times.')
    text = " ".join(["word"] * 100)
    assert whole(text, request=request).kind is not Kind.CORRUPT
    assert streamed(text, request=request).kind is not Kind.CORRUPT


def test_more_than_was_asked_for_is_a_loop_again() -> None:
    request = asking('Repeat the word "word" 20 times.')
    assert streamed("word " * 400, "length", request).kind is Kind.CORRUPT


def test_an_unrelated_number_in_the_request_excuses_nothing() -> None:
    request = asking("Summarise the tax treatment of dividends in 2024.")
    assert streamed("ha ha ho " * 70, "length", request).kind is Kind.CORRUPT


def test_numbered_lines_that_never_end_are_a_loop() -> None:
    text = "".join(f"{n}. Check the power cable and try again.\n" for n in range(1, 140))
    assert "recurrence.counter" in names(whole(text, "length"))
    assert whole(text[:400]).kind is Kind.CLEAN


def test_prose_that_only_recycles_its_phrases_is_cut_off_stale() -> None:
    said = ["I am a cat. ", "Scurvy, I am a cat. ", "He said I am a cat. "]
    text = PROSE + "".join(said[(n * n) % 3] for n in range(40))
    assert whole(text, "length").kind is Kind.CORRUPT
    assert whole(PROSE * 1, "length").kind is Kind.CLEAN


def test_the_shape_of_a_loop_shows_no_word() -> None:
    verdict = whole("secret word " * 60, "length")
    assert verdict.kind is Kind.CORRUPT
    assert not any("secret" in finding.shape for finding in verdict.findings)
    shown = [finding.shape for finding in whole("!" * 90, "length").findings]
    assert any(shape.startswith('"!"') for shape in shown)


def test_five_hundred_good_words_do_not_hide_a_bad_end() -> None:
    verdict = streamed(PROSE * 8 + "!" * 120, "length")
    assert verdict.kind is Kind.CORRUPT


def test_a_loop_inside_finished_arguments_counts() -> None:
    arguments = '{"content": "' + "the same " * 60 + '"}'
    verdict = whole(arguments, "tool_calls", channel=Channel.TOOL_ARGUMENTS)
    assert "repetition.period" in names(verdict)


def test_a_policy_ending_is_not_judged_as_a_loop_that_was_cut() -> None:
    assert whole("No. " * 8, "content_filter").kind is Kind.CLEAN


def test_one_token_a_character_gives_a_run_in_a_body_away() -> None:
    text = "the molecules of" + "." * 63
    assert "deltas.token_per_character" in names(whole(text, "length", tokens=70))
    assert whole(text, "length", tokens=9).kind is not Kind.CORRUPT
    request = asking("Print exactly 100 exclamation marks.")
    assert whole("!" * 100, request=request, tokens=1).kind is not Kind.CORRUPT


@pytest.mark.parametrize("times", [2, 4])
def test_every_token_twice_is_stutter(times: int) -> None:
    text = " ".join(" ".join([word] * times) for word in PROSE.replace(".", "").split())
    assert "stutter.doubled" in names(whole(text))


@pytest.mark.parametrize(
    "text",
    [
        PROSE + "He said that that had had no effect, and so so many knew. " + PROSE,
        "typedef struct Foo Foo;\ntypedef struct Bar Bar;\ntypedef struct Baz Baz;\n" * 3,
        "anak-anak itu bermain main di taman, lalu pulang pulang cepat. " * 2,
    ],
)
def test_words_that_grammar_or_code_doubles_are_no_stutter(text: str) -> None:
    assert whole(text).kind is not Kind.CORRUPT


ROWS = (
    '    printf("Element %d is even", n);\n    printf("Element %d is odd", n);\n',
    "| United Kingdom | London |\n| United States | Washington D.C. |\n",
)
BLOCK = "".join(
    f"    <tr>\n        <td>{name}</td>\n        <td>{price}</td>\n    </tr>\n"
    for name, price in (("Apple", "10.99"), ("Banana", "1.10"), ("Orange", "1.20"), ("Fig", "2.40"))
)


@pytest.mark.parametrize(("text", "copies"), [(ROWS[0], 5), (ROWS[1], 5), (BLOCK, 3)])
def test_unlike_rows_by_turns_that_the_limit_cut_off_are_a_loop(text: str, copies: int) -> None:
    lead = 'int main(void) {\n    int n;\n    scanf("%d", &n);\n    int i = 0;\n'
    assert "repetition.unfinished" in names(whole(lead + copies * text + text[:20], "length"))
    assert whole(lead + copies * text + "}", "stop").kind is Kind.CLEAN


def test_a_paragraph_that_only_rearranges_its_phrases_is_cut_off_stale() -> None:
    phrase, other = "are found in the deep blue depths", "They live in the oceans and "
    text = PROSE + (other + phrase + ". They " + phrase + " and " + phrase + ". ") * 4
    assert {"recurrence.phrases", "repetition.unfinished"} & names(whole(text[:-9], "length"))


WANTED = "I must check the float switch first."


@pytest.mark.parametrize("lead", ["", "Here you go:\n\n"])
def test_lines_from_the_first_sign_on_may_be_wanted_until_they_do_not_end(lead: str) -> None:
    few = lead + (6 if lead else 30) * (WANTED + "\n")
    assert streamed(few, "stop").kind is not Kind.CORRUPT
    assert streamed(lead + 30 * (WANTED + "\n"), "length").kind is Kind.CORRUPT
    assert streamed(lead + 200 * (WANTED + "\n"), "stop").kind is Kind.CORRUPT


def test_a_body_that_ended_after_a_round_number_of_copies_was_wanted() -> None:
    assert whole(100 * "tick tock ", "stop").kind is Kind.SUSPECT
    assert whole(100 * "tick tock ", "length").kind is Kind.CORRUPT
    assert whole(1433 * "tick tock ", "stop").kind is Kind.CORRUPT


def test_a_run_in_few_tokens_was_written_by_an_engine_that_works() -> None:
    assert whole("N" + "o" * 120 + "!", "stop", tokens=3).kind is not Kind.CORRUPT
    assert whole("N" + "o" * 120, "length", tokens=120).kind is Kind.CORRUPT


def test_a_stream_that_was_buffered_is_judged_as_a_body() -> None:
    assert streamed(["!" * 96], "length").kind is Kind.CORRUPT
    assert streamed(["!" * 96], "stop").kind is Kind.CORRUPT
    assert streamed(["!" * 100], "stop").kind is Kind.SUSPECT


def test_cells_of_nothing_are_data() -> None:
    text = '{"readings": [' + 60 * "null, " + "null]}"
    assert streamed(text, "stop").kind is not Kind.CORRUPT


def test_one_token_that_is_most_of_a_short_answer_is_a_loop_when_cut_off() -> None:
    deltas = ["</", "nd", *["-"] * 20]
    assert "deltas.same_delta" in names(streamed(deltas, "length"))
    assert streamed(deltas, "stop").kind is Kind.CLEAN


@pytest.mark.parametrize(
    "text",
    [
        "```python\nleft = [(x) for for x in in arr[1:] if if x < p]\n```",
        '<order id id="7"><item name="lamp" qty qty="2"/></order>',
        '[{"name" "name": "bolt", "qty": 4}, {"name": "nut", "qty": "qty": 9}]',
    ],
)
def test_syntax_that_no_parser_takes_twice_is_stutter(text: str) -> None:
    assert "stutter.syntax" in names(whole(text))


def test_a_few_words_again_and_again_in_no_order_are_stutter() -> None:
    rng = random.Random(3)
    words = [rng.choice(("strugg", "satis", "hous", "extraord")) for _ in range(20)]
    text = " ".join(f"{word} " * rng.randint(1, 5) for word in words).replace("  ", " ")
    assert whole(text, "length").kind is Kind.CORRUPT


@pytest.mark.parametrize("unit", ["!", "ha ", "again and again "])
@pytest.mark.parametrize("copies", [50, 100, 200])
def test_a_known_request_that_asked_for_no_loop_excuses_none(unit: str, copies: int) -> None:
    loop = unit * copies
    assert whole(loop, request=asking("Hello, who are you?")).kind is Kind.CORRUPT
    assert whole(loop, request=asking(f"Write {unit!r} {copies} times.")).kind is not Kind.CORRUPT
    assert whole(loop).kind is not Kind.CORRUPT, "it may have been asked for, and ended by itself"
