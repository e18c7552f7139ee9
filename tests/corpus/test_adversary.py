"""Floors and ceilings on corruption and healthy text that a seed makes, kind by kind."""

from __future__ import annotations

import pytest

from bench.accuracy import judge
from bench.adversary import corrupt, healthy
from bench.adversary.draw import Case, Maker
from extproc.detect import Kind

EACH = 16

FLOOR = {"ascii_fragments": 0.0, "digit_soup": 0.6}
"""Share that must be called corrupt; of the others nine in ten. One fragment on a few words in a
hundred shows only where a little word is hit."""

CEILING = {"lists": 5}
"""Cases that may be called corrupt, of the others one: words of a list on one line, with blanks
alone between them, are salad to anybody who does not know that a list was wanted."""


@pytest.mark.parametrize("kind", corrupt.KINDS)
def test_corruption_of_every_kind_is_caught(kind: str) -> None:
    maker = Maker(3, [])
    cases = [corrupt.KINDS[kind](maker) for _ in range(EACH)]
    missed = [case.text[-80:] for case in cases if verdict(case) is not Kind.CORRUPT]
    assert len(missed) <= (1 - FLOOR.get(kind, 0.87)) * EACH, missed


@pytest.mark.parametrize("kind", healthy.KINDS)
def test_hard_healthy_text_of_every_kind_is_left_alone(kind: str) -> None:
    maker = Maker(3, [])
    cases = [healthy.KINDS[kind](maker) for _ in range(EACH)]
    wrong = [case.text[-80:] for case in cases if verdict(case) is Kind.CORRUPT]
    assert len(wrong) <= CEILING.get(kind, 1), wrong


def verdict(case: Case) -> Kind:
    return judge(case.events(), case.request()).kind
