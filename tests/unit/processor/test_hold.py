"""When headers are let go."""

from __future__ import annotations

from extproc.detect import Inspector
from extproc.health import State
from extproc.processor.hold import HoldPolicy, Release, decide
from extproc.wire import Channel, Text

POLICY = HoldPolicy()


def after(*tokens: str, state: State = State.PASS, streamed: bool = True) -> Release | None:
    inspector = Inspector()
    inspector.feed(Text(0, Channel.CONTENT, token, 1) for token in tokens)
    return decide(POLICY, state, streamed, inspector, sum(map(len, tokens)))


def test_two_different_words_let_go_at_once() -> None:
    assert after("The") is None
    assert after("The", " cat") is Release.ORDINARY


def test_words_in_one_piece_count_as_well() -> None:
    assert after("The cat sat") is Release.ORDINARY


def test_a_reasoning_model_s_first_words_let_go() -> None:
    inspector = Inspector()
    inspector.feed([Text(0, Channel.REASONING, "Let", 1), Text(0, Channel.REASONING, " me", 1)])
    assert decide(POLICY, State.PASS, True, inspector, 100) is Release.ORDINARY


def test_languages_without_spaces_let_go() -> None:
    assert after("今天", "天气") is Release.ORDINARY


def test_a_repeated_token_is_held_until_the_verdict() -> None:
    assert after(*["!"] * 8) is None
    assert after(*["!"] * 16) is Release.CORRUPT
    assert after(*[" the"] * 8) is None
    assert after(*[" the"] * 16) is Release.CORRUPT


def test_repetition_in_larger_bites_is_no_second_word() -> None:
    assert after("igui", "iguiigui") is None


def test_blanks_are_held_but_not_for_ever() -> None:
    assert after(*["\n"] * 31) is None
    assert after(*["\n"] * 32) is Release.TOKENS


def test_bytes_end_the_hold_of_any_body() -> None:
    inspector = Inspector()
    assert decide(POLICY, State.PASS, False, inspector, 65535) is None
    assert decide(POLICY, State.PASS, False, inspector, 65536) is Release.BYTES
    assert decide(POLICY, State.PASS, True, inspector, 65536) is Release.BYTES


def test_a_whole_body_waits_for_its_end() -> None:
    assert after("The", " cat", streamed=False) is None


def test_an_observed_unit_waits_longer() -> None:
    words = [f" word{i}" for i in range(15)]
    assert after(*words, state=State.OBSERVE) is None
    assert after(*words, " last", state=State.OBSERVE) is Release.ORDINARY
