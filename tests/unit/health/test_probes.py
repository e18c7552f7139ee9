"""What active probes do to a state."""

from __future__ import annotations

from typing import Any

import pytest

from extproc.detect import Kind
from extproc.health import ALL, Change, Ledger, Probes, Response, State
from extproc.units import Unit

UNITS = [Unit("a", release="r1", fallback=("b",)), Unit("b", release="r1", verified=True)]


def answers(ledger: Ledger, times: int, kind: Kind = Kind.CORRUPT, **fields: Any) -> None:
    made = Response("a", "r1", "short", "h1", kind, (), "", 0.0)._replace(**fields)
    for _ in range(times):
        ledger.record(made)


def probe(ledger: Ledger, passed: int = 0, failed: int = 0, **fields: Any) -> list[Change]:
    made = Probes("a", "r1", ALL, ALL, passed, failed, "matrix (by prober)", 1.0)
    return ledger.probed(made._replace(**fields))


def test_passed_probes_lead_from_quarantine_to_observe() -> None:
    ledger = Ledger(UNITS)
    answers(ledger, 3)
    assert ledger.unit_state("a") is State.QUARANTINE
    (change,) = probe(ledger, passed=12)
    assert (change.before, change.after) == (State.QUARANTINE, State.OBSERVE)
    assert change.cause == "probes: matrix (by prober)"
    assert ledger.unit_state("a") is State.OBSERVE
    answers(ledger, 3)
    assert ledger.unit_state("a") is State.QUARANTINE, "evidence counts anew"


def test_probes_of_one_class_release_that_class() -> None:
    ledger = Ledger(UNITS)
    answers(ledger, 3)
    answers(ledger, 3, context="long")
    probe(ledger, passed=5, context="short")
    assert ledger.class_state("a", "short") is State.OBSERVE
    assert ledger.class_state("a", "long") is State.QUARANTINE


def test_probes_of_one_host_let_that_host_in_and_prove_no_unit() -> None:
    ledger = Ledger(UNITS)
    answers(ledger, 30, Kind.CLEAN, host="h2")
    answers(ledger, 4)
    assert ledger.host_drained("a", "h1")
    assert not probe(ledger, passed=5, host="h2")
    (change,) = probe(ledger, passed=5, host="h1")
    assert (change.host, change.after) == ("h1", State.OBSERVE)
    assert not ledger.host_drained("a", "h1")
    answers(ledger, 4, host="h3")
    answers(ledger, 30)  # a second bad host: the unit's
    assert ledger.unit_state("a") is State.QUARANTINE
    assert not probe(ledger, passed=5, host="h1")


def test_passed_probes_change_nothing_else() -> None:
    ledger = Ledger(UNITS)
    answers(ledger, 1)
    before = ledger.snapshot()
    assert not probe(ledger, passed=1000)
    assert ledger.snapshot() == before


def test_an_operator_s_hold_stands_above_probes() -> None:
    ledger = Ledger(UNITS)
    answers(ledger, 3)
    ledger.hold_out("a", "a driver update", 0.0)
    probe(ledger, passed=12)
    assert ledger.unit_state("a") is State.QUARANTINE
    assert ledger.class_state("a", "short") is State.OBSERVE


def test_failed_probes_are_evidence_as_corrupt_responses_are() -> None:
    ledger = Ledger(UNITS)
    answers(ledger, 1, Kind.CLEAN)
    changes = probe(ledger, failed=3, context="short")
    assert [c.after for c in changes] == [State.OBSERVE, State.QUARANTINE]
    assert ledger.unit_state("a") is State.QUARANTINE
    (track,) = [track for _, _, track in ledger.tracks("a")]
    assert track.counts.total() == 1, "probes are no responses"
    assert list(ledger.hosts("a")) == ["h1"], "probes of no single host invent none"


def test_one_failed_probe_among_many_weighs_as_among_many_answers() -> None:
    ledger = Ledger(UNITS)
    for _ in range(20):
        probe(ledger, passed=999, failed=1, context="short")
    assert ledger.class_state("a", "short") is not State.QUARANTINE


def test_failed_probes_of_one_host_drain_it_alone() -> None:
    ledger = Ledger(UNITS)
    answers(ledger, 30, Kind.CLEAN, host="h2")
    probe(ledger, failed=4, context="short", host="h1")
    assert ledger.host_drained("a", "h1")
    assert ledger.unit_state("a") is not State.QUARANTINE


def test_probes_of_another_release_or_of_no_class_are_refused() -> None:
    ledger = Ledger(UNITS)
    with pytest.raises(ValueError, match="not known to run"):
        probe(ledger, passed=1, release="r9")
    with pytest.raises(ValueError, match="class"):
        probe(ledger, failed=1)


def test_only_the_release_that_was_probed_is_let_in() -> None:
    ledger = Ledger(UNITS)
    answers(ledger, 1, Kind.CLEAN, release="r2")
    answers(ledger, 3)  # hosts that still run the old one
    answers(ledger, 3, release="r2")
    probe(ledger, passed=9, release="r2")
    assert ledger.class_state("a", "short") is State.QUARANTINE
    probe(ledger, passed=9)
    assert ledger.class_state("a", "short") is State.OBSERVE


def test_a_unit_that_has_answered_nothing_may_be_probed() -> None:
    ledger = Ledger([Unit("a")])
    assert not probe(ledger, passed=9)
    assert probe(ledger, failed=9, context="long")[-1].after is State.QUARANTINE
