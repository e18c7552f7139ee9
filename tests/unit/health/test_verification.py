"""Who may take others' traffic, and until when."""

from __future__ import annotations

import json

import pytest

from extproc.detect import Kind
from extproc.health import Change, Ledger, Response, Severity, Subject, severity
from extproc.units import Registry, Unit

DAY = 86_400.0
UNITS = [Unit("a", release="r1", fallback=("b",)), Unit("b", release="r1")]


def answer(ledger: Ledger, unit: str, release: str, kind: Kind, at: float = 0.0) -> list[Change]:
    return ledger.record(Response(unit, release, "short", "h1", kind, (), "", at))


def ended(changes: list[Change]) -> list[str]:
    return [c.cause for c in changes if c.subject is Subject.VERIFICATION]


def broken() -> Ledger:
    """``a`` is quarantined, nobody has said a word of its fallback ``b``."""
    ledger = Ledger(UNITS)
    for _ in range(3):
        answer(ledger, "a", "r1", Kind.CORRUPT)
    return ledger


def how(ledger: Ledger) -> Severity:
    return severity("a", ledger, Registry(UNITS))


def test_a_verified_fallback_makes_quarantine_hard_until_it_expires() -> None:
    ledger = broken()
    assert how(ledger) is Severity.SOFT
    (change,) = ledger.verify("b", "r1", DAY, "gates (by ci)", 1.0)
    assert (change.subject, change.cause) == (Subject.VERIFICATION, "verified: gates (by ci)")
    assert how(ledger) is Severity.HARD
    assert not ledger.tick(DAY - 1)
    assert ended(ledger.tick(DAY)) == ["lapsed: its time is over"]
    assert how(ledger) is Severity.SOFT
    assert not ledger.tick(DAY + 1), "told twice"


def test_the_verification_of_one_release_is_none_of_the_next() -> None:
    ledger = broken()
    ledger.verify("b", "r1", DAY, "gates", 0.0)
    assert ended(answer(ledger, "b", "r2", Kind.CLEAN)) == []
    assert how(ledger) is Severity.SOFT
    assert ended(ledger.tick(1.0)) == ["lapsed: another release runs now"]
    ledger.verify("b", "r2", DAY, "gates", 2.0)
    assert how(ledger) is Severity.HARD


def test_a_release_may_be_verified_before_it_takes_traffic() -> None:
    ledger = broken()
    ledger.verify("b", "r1", DAY, "gates", 0.0)
    ledger.verify("b", "r2", DAY, "gates", 0.0)
    assert how(ledger) is Severity.HARD
    answer(ledger, "b", "r2", Kind.CLEAN)
    assert how(ledger) is Severity.HARD
    assert ended(ledger.tick(1.0)) == [], "nobody need act when the next one is verified as well"


def test_what_is_withdrawn_needs_no_second_alert() -> None:
    ledger = broken()
    ledger.verify("b", "r1", DAY, "gates", 0.0)
    assert ended(ledger.withdraw("b", "r1", "a bad night", 1.0)) == ["withdrawn: a bad night"]
    assert how(ledger) is Severity.SOFT
    assert not ledger.tick(2 * DAY)


def test_a_clock_that_jumps_and_returns_loses_no_verification() -> None:
    ledger = broken()
    ledger.verify("b", "r1", DAY, "gates", 0.0)
    assert ended(ledger.tick(365 * DAY)) == ["lapsed: its time is over"]
    assert how(ledger) is Severity.SOFT
    assert not ledger.tick(10.0)
    assert how(ledger) is Severity.HARD


def test_the_configuration_s_word_holds_until_a_release_that_ran_is_spoken_of() -> None:
    units = [UNITS[0], Unit("b", release="r1", verified=True)]
    ledger = Ledger(units)
    ledger.verify("b", "r2", DAY, "gates of what comes next", 0.0)
    assert ledger.verified("b")
    ledger.withdraw("b", "r1", "it loops", 1.0)
    assert not ledger.verified("b")


def test_verifications_outlive_the_process() -> None:
    ledger = broken()
    ledger.verify("b", "r1", DAY, "gates", 0.0)
    ledger.withdraw("a", "r1", "no", 0.0)
    again = Ledger(UNITS)
    again.restore(json.loads(json.dumps(ledger.snapshot())))
    assert again.verifications == ledger.verifications
    assert how(again) is Severity.HARD
    assert ended(again.tick(DAY)) == ["lapsed: its time is over"]


def test_a_book_from_before_there_were_verifications_is_read() -> None:
    book = broken().snapshot()
    del book["verifications"]
    again = Ledger(UNITS)
    again.restore(book)
    assert again.unit_state("a") == "quarantine"


@pytest.mark.parametrize("said", [{"unit": "b"}, "b", {"until": "NaN"}, None])
def test_a_broken_verification_is_refused_whole(said: object) -> None:
    book = broken().snapshot()
    book["verifications"] = [said]
    again = Ledger(UNITS)
    with pytest.raises(ValueError, match="cannot be read"):
        again.restore(book)
    assert again.unit_state("a") == "pass"


def test_words_of_a_unit_stay_few() -> None:
    ledger = Ledger(UNITS)
    for number in range(50):
        ledger.verify("b", f"r{number}", DAY, "gates", 0.0)
    assert len(ledger.verifications) == 4
