"""What stays of a text that is masked."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.health.redaction import redacted
from extproc.samples import common_words

COMMON = common_words()
MASK = re.compile(r"<(?:\d+ [a-z]+ \d+|address|[A-Z][a-z])>")


def mask(text: str, most: int = 4096) -> str:
    return redacted(text, COMMON, most)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("!!!!!!!!", "!!!!!!!!"),
        ("Give it to Margaret Okonkwo.", "Give it to <1 latin 8> <2 latin 7>."),
        ("write to m.o+x@example.org or not", "<1 latin 5> to <address> or not"),
        ("see https://user:pw@host/p?token=abc now", "see <address> now"),
        ("call +49 171 5550199", "call +<1 digits 2> <2 digits 3> <3 digits 7>"),
        ("sk-proj4Zx9Q", "<1 latin 2>-<2 key 9>"),
        ("loop loop loop", "<1 latin 4> <1 latin 4> <1 latin 4>"),
        ("J o h n", "<1 latin 1> <2 latin 1> <3 latin 1> <4 latin 1>"),
        ("Ⓙⓞⓗⓝ \uff2a\uff4f\uff48\uff4e", "<1 latin 4> <1 latin 4>"),
        ("Jo\u200bhn", "<1 latin 2><Cf><2 latin 2>"),
        ("我叫王小明", "<1 cjk 5>"),
        ("नमस्ते", "<1 devanagari 6>"),
        ("a\x00b\x1b[31m", "<1 latin 1><Cc><2 latin 1><Cc>[<3 key 3>"),
        ("\U000e0041\ud800", "<Cf><Cs>"),
        ("", ""),
    ],
)
def test_only_common_words_and_signs_stay(text: str, masked: str) -> None:
    assert mask(text) == masked


def test_the_end_is_kept_and_a_cut_word_is_not_taken_for_a_whole_one() -> None:
    text = "x" * 500 + " Mother" + " the" * 20
    for most in range(64, 140):
        out = mask(text, most)
        assert len(out.encode()) <= most
        assert "other" not in out.replace("<", " ").split()
        assert out.endswith(" the the the")


texts = st.lists(
    st.one_of(
        st.text(max_size=12),
        st.sampled_from(["the", "and", "Okonkwo", "4111 1111", "a@b.de", " ", "\n", "!", "ß", "ǅ"]),
    ),
    max_size=30,
).map("".join)


@given(texts, st.integers(64, 600))
def test_nothing_else_comes_through_whatever_the_text(text: str, most: int) -> None:
    out = mask(text, most)
    assert len(out.encode("utf-8", "surrogatepass")) <= most
    rest = MASK.sub("\0", out)
    for run in re.findall(r"\w+", rest):
        assert run.lower() in COMMON or len(run) == 2, run
    assert not {unicodedata.category(c) for c in rest} - {"Cc"} & {"Cf", "Cs", "Co", "Cn"}


def test_the_list_holds_words_of_many_languages_and_no_numbers() -> None:
    assert {"the", "und", "los", "для"} <= COMMON
    assert all(word.isalpha() and word == word.lower() for word in COMMON)
