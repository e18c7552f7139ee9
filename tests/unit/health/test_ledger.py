"""States of units, as responses and operators move them."""

from __future__ import annotations

import json
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.detect import Kind
from extproc.health import Change, Ledger, Response, Severity, State, severity
from extproc.health.agreement import Agreement
from extproc.health.sampling import Sampler
from extproc.health.states import SEVERITY, TRANSITIONS, Signal, after
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


def test_one_corrupt_answer_observes_three_quarantine() -> None:
    ledger = Ledger(UNITS)
    assert [c.after for c in record(ledger, 1)] == [State.OBSERVE]
    assert [c.after for c in record(ledger, 2)] == [State.QUARANTINE]


def test_observe_ends_after_clean_responses_and_quarantine_does_not() -> None:
    ledger = Ledger(UNITS)
    record(ledger, 1)
    changes = record(ledger, 3000, Kind.CLEAN)
    assert [(c.before, c.after) for c in changes] == [(State.OBSERVE, State.PASS)]
    record(ledger, 3)
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
    record(ledger, 3, Kind.CORRUPT, "a", "r2")
    assert not record(ledger, 3, Kind.CLEAN, "a", "r1")
    assert ledger.unit_state("a") is State.QUARANTINE


def test_a_unit_nobody_named_is_counted() -> None:
    ledger = Ledger()
    record(ledger, 3, Kind.CORRUPT, "stranger")
    assert ledger.unit_state("stranger") is State.QUARANTINE


def test_an_operator_s_word_stands_until_it_is_taken_back() -> None:
    ledger = Ledger(UNITS)
    assert ledger.hold_out("a", "maintenance", 1.0)[0].after is State.QUARANTINE
    assert (ledger.held("a"), ledger.since("a")) == ("maintenance", 1.0)
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


def test_only_so_many_units_are_cut_off_at_a_time() -> None:
    units = [Unit(name, fallback=("f",)) for name in "abcd"] + [Unit("f", verified=True)]
    ledger, registry = Ledger(units), Registry(units)
    for at, name in enumerate("abcd"):
        ledger.hold_out(name, "x", float(at))
    found = [severity(name, ledger, registry) for name in "abcd"]
    assert found == [Severity.HARD, Severity.HARD, Severity.SOFT, Severity.SOFT]


def test_a_snapshot_restores_states_evidence_and_words() -> None:
    ledger = Ledger(UNITS)
    record(ledger, 2)
    record(ledger, 300, Kind.CLEAN, "b")
    ledger.hold_out("b", "maintenance", 5.0)
    book = json.loads(json.dumps(ledger.snapshot()))
    again = Ledger(UNITS)
    again.restore(book)
    assert again.snapshot() == ledger.snapshot()
    assert again.unit_state("b") is State.QUARANTINE
    assert [c.after for c in record(again, 1)] == [State.QUARANTINE], "evidence was lost"


@pytest.mark.parametrize(
    "book", [{}, {"version": 99}, {"version": 1}, {"version": 1, "units": {"a": 3}, "held": {}}]
)
def test_a_book_that_cannot_be_read_changes_nothing(book: dict[str, object]) -> None:
    ledger = Ledger(UNITS)
    record(ledger, 3)
    before = ledger.snapshot()
    with pytest.raises(ValueError, match="a book"):
        ledger.restore(book)
    assert ledger.snapshot() == before


def test_two_sidecars_that_tell_each_other_agree() -> None:
    one, two = Ledger(UNITS), Ledger(UNITS)
    here, there = Agreement(one, "one"), Agreement(two, "two")
    record(one, 3)
    changes = there.adopt(list(here.shared().values()), 1.0)
    assert [(c.unit, c.after) for c in changes] == [("a", State.QUARANTINE)]
    assert not there.adopt(list(here.shared().values()), 2.0), "told twice, taken over twice"
    two.let_in("a", "repaired", 3.0)
    here.adopt(list(there.shared().values()), 4.0)
    assert one.unit_state("a") is two.unit_state("a") is State.OBSERVE
    assert here.shared() == there.shared()


def test_an_operator_s_hold_is_told_and_taken_back() -> None:
    one, two = Ledger(UNITS), Ledger(UNITS)
    here, there = Agreement(one, "one"), Agreement(two, "two")
    one.hold_out("b", "maintenance", 1.0)
    there.adopt(list(here.shared().values()), 1.0)
    assert two.held("b") == "maintenance"
    two.let_in("b", "done", 2.0)
    here.adopt(list(there.shared().values()), 2.0)
    assert one.held("b") is None


def test_units_that_were_always_well_are_not_told() -> None:
    ledger = Ledger(UNITS)
    record(ledger, 10, Kind.CLEAN)
    assert not Agreement(ledger, "one").shared()


def test_a_share_is_taken_of_every_host_and_class_and_all_of_an_observed_unit() -> None:
    sampler = Sampler(0.1, {"b": 1.0})
    for host in ("h1", "h2"):
        taken = [sampler.takes("a", host, "short", State.PASS) for _ in range(100)]
        assert sum(taken) == 10
        assert taken[0], "the first of a stratum is looked at"
    assert all(sampler.takes("a", "h1", "short", State.OBSERVE) for _ in range(10))
    assert all(sampler.takes("b", "h1", "short", State.PASS) for _ in range(10))
    assert not Sampler(0.0).takes("a", "h", "short", State.PASS)
