"""States of units, as responses and operators move them."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from extproc.detect import Kind
from extproc.health import Change, Ledger, Response, Severity, Signal, State, severity
from extproc.health.states import SEVERITY, TRANSITIONS, after
from extproc.units import Registry, Unit

UNITS = [Unit("a", release="r1", fallback=("b",)), Unit("b", release="r1", verified=True)]


def response(
    kind: Kind = Kind.CORRUPT, unit: str = "a", release: str = "r1", context: str = "short"
) -> Response:
    return Response(unit, release, context, "h1", kind, (), "id", 0.0)


def record(ledger: Ledger, times: int, *args: Kind | str) -> list[Change]:
    return [c for _ in range(times) for c in ledger.record(response(*args))]  # type: ignore[arg-type]


def test_only_a_release_leads_out_of_quarantine() -> None:
    leaving = [s for s in Signal if after(State.QUARANTINE, s) is not State.QUARANTINE]
    assert leaving == [Signal.RELEASED]
    assert after(State.QUARANTINE, Signal.RELEASED) is State.OBSERVE


def test_evidence_never_improves_a_state() -> None:
    for state, signal in product(State, (Signal.WARNED, Signal.ALARMED)):
        assert SEVERITY[after(state, signal)] >= SEVERITY[state]
    assert set(TRANSITIONS) == set(State)


def test_one_corrupt_answer_observes_two_quarantine() -> None:
    ledger = Ledger(UNITS)
    assert [c.after for c in record(ledger, 1)] == [State.OBSERVE]
    assert [c.after for c in record(ledger, 1)] == [State.QUARANTINE]


def test_observe_ends_after_clean_responses_and_quarantine_does_not() -> None:
    ledger = Ledger(UNITS)
    record(ledger, 1)
    changes = record(ledger, 400, Kind.CLEAN)
    assert [(c.before, c.after) for c in changes] == [(State.OBSERVE, State.PASS)]
    record(ledger, 2)
    assert not record(ledger, 5000, Kind.CLEAN)
    assert ledger.unit_state("a") is State.QUARANTINE


def test_unchecked_responses_are_no_evidence_either_way() -> None:
    ledger = Ledger(UNITS)
    record(ledger, 1)
    assert not record(ledger, 1000, Kind.UNCHECKED)
    assert ledger.unit_state("a") is State.OBSERVE


def test_classes_are_apart() -> None:
    ledger = Ledger(UNITS)
    record(ledger, 3, Kind.CORRUPT, "a", "r1", "long")
    assert ledger.state("a", "long") is State.QUARANTINE
    assert ledger.state("a", "short") is State.PASS
    assert ledger.unit_state("a") is State.QUARANTINE


def test_a_new_release_is_observed_and_clears_what_was_held_against_the_old() -> None:
    ledger = Ledger(UNITS)
    record(ledger, 3)
    changes = record(ledger, 1, Kind.CLEAN, "a", "r2")
    assert [(c.before, c.after, c.cause) for c in changes] == [
        (State.QUARANTINE, State.OBSERVE, "new release")
    ]
    assert ledger.state("a", "short") is State.OBSERVE
    assert ledger.release("a") == "r2"


def test_an_old_release_seen_again_is_not_new() -> None:
    ledger = Ledger(UNITS)
    record(ledger, 1, Kind.CLEAN)
    record(ledger, 1, Kind.CLEAN, "a", "r2")
    record(ledger, 2, Kind.CORRUPT, "a", "r2")
    assert not record(ledger, 3, Kind.CLEAN, "a", "r1")
    assert ledger.unit_state("a") is State.QUARANTINE


def test_a_unit_nobody_named_is_counted() -> None:
    ledger = Ledger()
    record(ledger, 2, Kind.CORRUPT, "stranger")
    assert ledger.unit_state("stranger") is State.QUARANTINE


def test_an_operator_s_word_stands_until_it_is_taken_back() -> None:
    ledger = Ledger(UNITS)
    assert ledger.hold_out("a", "maintenance", 1.0)[0].after is State.QUARANTINE
    record(ledger, 200, Kind.CLEAN)
    assert ledger.unit_state("a") is State.QUARANTINE
    assert ledger.let_in("a", "done", 2.0)[0].before is State.QUARANTINE
    assert ledger.unit_state("a") is State.OBSERVE


def test_quarantine_is_hard_only_with_a_verified_fallback_that_is_well() -> None:
    ledger, registry = Ledger(UNITS), Registry(UNITS)
    assert severity("a", ledger, registry) is Severity.NONE
    ledger.hold_out("a", "x", 0)
    assert severity("a", ledger, registry) is Severity.HARD
    ledger.hold_out("b", "x", 0)
    assert severity("a", ledger, registry) is Severity.SOFT
    assert severity("b", ledger, registry) is Severity.SOFT


@given(st.lists(st.tuples(st.sampled_from(Kind), st.sampled_from(["r1", "r2", "r3", "r4", "r5"]))))
def test_the_book_takes_any_sequence(entries: list[tuple[Kind, str]]) -> None:
    ledger = Ledger(UNITS)
    for kind, release in entries:
        before = ledger.unit_state("a")
        changes = ledger.record(response(kind, release=release))
        if before is State.QUARANTINE and ledger.unit_state("a") is not State.QUARANTINE:
            assert any(change.cause == "new release" for change in changes)
    assert len({release for release, _, _ in ledger.tracks("a")}) <= 4
