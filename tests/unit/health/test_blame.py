"""The smallest thing that explains the evidence is blamed: request, source, host, class, unit."""

from __future__ import annotations

import random

import pytest

from extproc.detect import Kind
from extproc.health import Change, HealthSettings, Ledger, Response, Severity, State, severity
from extproc.health.pairs import Pairs
from extproc.health.sources import Sources
from extproc.units import Registry, Unit

UNITS = [
    Unit("a", model="m", release="r1", fallback=("b",)),
    Unit("b", model="m", release="r1", verified=True),
]


class Traffic:
    """Answers one after another, a second apart."""

    def __init__(self, **settings: float) -> None:
        self.ledger = Ledger(UNITS, HealthSettings(**settings))  # type: ignore[arg-type]
        self.now = 0.0
        self.changes: list[Change] = []

    def answer(self, unit: str, kind: Kind, **fields: object) -> None:
        self.now += 1.0
        response = Response(unit, "r1", "short", "h1", kind, (), "", self.now)
        self.changes += self.ledger.record(response._replace(**fields))  # type: ignore[arg-type]

    def retried(self, request_id: str, first: Kind, second: Kind, **fields: object) -> None:
        """One request: ``first`` on a, and if that was corrupt, ``second`` on b."""
        bad = first is Kind.CORRUPT
        self.answer("a", first, request_id=request_id, attempt=1, marked=bad, **fields)
        if bad:
            marked = second is Kind.CORRUPT
            self.answer("b", second, request_id=request_id, attempt=2, marked=marked, **fields)

    def state(self, unit: str) -> State:
        return self.ledger.unit_state(unit)


def test_corrupt_here_and_well_there_charges_here() -> None:
    t = Traffic()
    for number in range(3):
        t.retried(f"r{number}", Kind.CORRUPT, Kind.CLEAN)
    assert (t.state("a"), t.state("b")) == (State.QUARANTINE, State.PASS)
    assert t.ledger.pairs["one"] == 3


def test_corrupt_on_both_charges_neither() -> None:
    t = Traffic()
    for number in range(500):
        t.retried(f"r{number}", Kind.CORRUPT, Kind.CORRUPT)
        for _ in range(3):
            t.answer("a", Kind.CLEAN, attempt=1)
    assert (t.state("a"), t.state("b")) == (State.PASS, State.PASS)
    assert t.ledger.pairs["both"] == 500


def test_a_second_attempt_that_begins_well_need_not_end_to_be_heard() -> None:
    t = Traffic()
    for number in range(3):
        marked = {"request_id": f"r{number}", "attempt": 1, "marked": True}
        t.answer("a", Kind.CORRUPT, **marked)
        t.ledger.began_well(f"r{number}", "b", t.now)
    assert t.state("a") is State.QUARANTINE


def test_a_second_attempt_may_be_told_of_first() -> None:
    t = Traffic(pair_seconds=5.0)
    for number in range(3):
        if number % 2:
            t.ledger.began_well(f"r{number}", "b", t.now)
        else:
            t.answer("b", Kind.CLEAN, request_id=f"r{number}", attempt=2)
        t.answer("a", Kind.CORRUPT, request_id=f"r{number}", attempt=1, marked=True)
    assert t.state("a") is State.QUARANTINE
    assert t.ledger.pairs == {"one": 3}
    t.answer("b", Kind.CLEAN, request_id="old", attempt=2)
    t.ledger.tick(t.now + 5.0)
    t.answer("a", Kind.CORRUPT, request_id="old", attempt=1, marked=True)
    assert t.ledger.pairs == {"one": 3}, "what came early is not kept for ever"


def test_answers_told_out_of_order_end_no_waiting() -> None:
    ledger = Ledger(UNITS)
    first = Response("a", "r1", "short", "h", Kind.CORRUPT, (), "id", 9.0, marked=True, attempt=1)
    ledger.record(first)
    ledger.record(Response("b", "r1", "short", "h", Kind.CLEAN, (), "other", 8.9, attempt=1))
    assert not ledger.pairs
    ledger.began_well("id", "b", 9.1)
    ledger.began_well("next", "b", 9.2)
    ledger.record(first._replace(request_id="next", at=9.0))
    assert ledger.pairs == {"one": 2}


def test_a_second_attempt_that_never_comes_charges_after_a_while() -> None:
    t = Traffic(pair_seconds=5.0)
    for number in range(3):
        t.answer("a", Kind.CORRUPT, request_id=f"r{number}", attempt=1, marked=True)
    assert t.state("a") is State.PASS
    t.ledger.tick(t.now + 5.0)
    assert t.state("a") is State.QUARANTINE
    assert t.ledger.pairs["none"] == 3


def test_the_same_unit_s_own_retry_is_no_comparison() -> None:
    t = Traffic()
    for number in range(3):
        t.answer("a", Kind.CORRUPT, request_id=f"r{number}", attempt=1, marked=True)
        t.answer("a", Kind.CLEAN, request_id=f"r{number}", attempt=2)
    assert t.ledger.pairs["one"] == 0


def test_one_client_whose_prompt_makes_every_unit_loop_quarantines_nothing() -> None:
    rng = random.Random(7)
    t = Traffic()
    for number in range(3000):
        if number % 20 == 0:  # the odd prompt: late in the stream or at once, on either unit
            if rng.random() < 0.5:
                t.retried(f"r{number}", Kind.CORRUPT, Kind.CORRUPT, source="odd")
            else:
                t.answer("a", Kind.CORRUPT, attempt=1, source="odd")
        else:
            t.answer("a", Kind.CLEAN, attempt=1, source=f"user{rng.randrange(40)}")
    assert (t.state("a"), t.state("b")) == (State.PASS, State.PASS)


def test_one_client_whose_prompts_only_loop_late_quarantines_nothing() -> None:
    # No retry, hence no comparison: its share of the charges against its share of the traffic.
    rng = random.Random(7)
    t = Traffic()
    for number in range(3000):
        if number % 50 == 0:
            t.answer("a", Kind.CORRUPT, attempt=1, source="odd")
        else:
            t.answer("a", Kind.CLEAN, attempt=1, source=f"user{rng.randrange(40)}")
    assert t.state("a") is not State.QUARANTINE


def test_a_fault_that_everybody_meets_is_not_damped() -> None:
    rng = random.Random(7)
    t = Traffic()
    for number in range(400):
        kind = Kind.CORRUPT if number >= 200 and rng.random() < 0.2 else Kind.CLEAN
        t.answer("a", kind, attempt=1, source=f"user{rng.randrange(40)}")
    assert t.state("a") is State.QUARANTINE


def test_the_only_client_is_no_odd_one() -> None:
    t = Traffic()
    for _ in range(3):
        t.answer("a", Kind.CORRUPT, attempt=1, source="gateway")
    assert t.state("a") is State.QUARANTINE


def test_one_bad_host_of_three_is_drained_alone() -> None:
    rng = random.Random(3)
    t = Traffic()
    for number in range(300):
        alive = [h for h in ("h1", "h2", "h3") if not t.ledger.host_drained("a", h)]
        host = rng.choice(alive)
        bad = host == "h2" and number > 60
        t.answer("a", Kind.CORRUPT if bad else Kind.CLEAN, host=host)
    assert t.ledger.host_drained("a", "h2")
    assert not t.ledger.host_drained("a", "h1")
    assert t.state("a") is not State.QUARANTINE
    drained = [change for change in t.changes if change.cause == "host"]
    assert [change.host for change in drained] == ["h2"]


def test_faults_on_two_hosts_are_the_unit_s() -> None:
    rng = random.Random(3)
    t = Traffic()
    for number in range(300):
        alive = [h for h in ("h1", "h2", "h3") if not t.ledger.host_drained("a", h)]
        host = rng.choice(alive)
        bad = host != "h1" and number > 60
        t.answer("a", Kind.CORRUPT if bad else Kind.CLEAN, host=host)
        if t.state("a") is State.QUARANTINE:
            return
    raise AssertionError("never blamed on the unit")


def test_a_fault_in_long_contexts_quarantines_only_that_class() -> None:
    t = Traffic(classes_routed=True)
    for number in range(100):
        t.answer("a", Kind.CLEAN)
        bad = number > 30
        t.answer("a", Kind.CORRUPT if bad else Kind.CLEAN, context="long")
    ledger, registry = t.ledger, Registry(UNITS)
    assert ledger.state("a", "long") is State.QUARANTINE
    assert ledger.state("a", "short") is State.PASS
    assert severity("a", ledger, registry, "long") is Severity.HARD
    assert severity("a", ledger, registry, "short") is Severity.NONE
    assert severity("a", ledger, registry) is Severity.NONE


def test_where_classes_are_not_routed_apart_one_takes_the_unit_out() -> None:
    t = Traffic()
    for _ in range(3):
        t.answer("a", Kind.CORRUPT, context="long")
    assert severity("a", t.ledger, Registry(UNITS)) is Severity.HARD


def test_suspects_beside_a_stable_sibling_are_evidence() -> None:
    rng = random.Random(5)
    t = Traffic()
    for _ in range(400):
        t.answer("b", Kind.SUSPECT if rng.random() < 0.02 else Kind.CLEAN, attempt=1)
    assert t.state("b") is State.PASS
    states = []
    for _ in range(600):
        t.answer("a", Kind.SUSPECT if rng.random() < 0.25 else Kind.CLEAN, attempt=1)
        states.append(t.state("a"))
    assert states[-1] is State.QUARANTINE
    assert State.OBSERVE in states


def test_suspects_without_a_sibling_are_no_evidence() -> None:
    t = Traffic()
    for _ in range(2000):
        t.answer("a", Kind.SUSPECT, attempt=1)
    assert t.state("a") is State.PASS


def test_a_canary_is_tested_against_the_stable_unit_s_own_rate() -> None:
    rng = random.Random(5)
    t = Traffic()
    for _ in range(2000):
        t.answer("b", Kind.CLEAN, attempt=1)
    assert t.ledger.baseline("a", "short") < t.ledger.settings.prior
    noisy = Traffic()
    for _ in range(2000):
        noisy.answer("b", Kind.CORRUPT if rng.random() < 0.004 else Kind.CLEAN, attempt=1)
    assert noisy.ledger.baseline("a", "short") > 0.004


def test_retries_are_no_sample_of_the_traffic() -> None:
    t = Traffic()
    for number in range(1000):
        t.answer("b", Kind.CORRUPT if number % 10 else Kind.CLEAN, attempt=2, source="")
    assert t.ledger.baseline("b", "short") == pytest.approx(t.ledger.settings.prior)


def test_waiting_is_bounded_in_number_and_by_any_clock() -> None:
    pairs: Pairs[int] = Pairs(5.0)
    gone = [x for n in range(Pairs.MAX_WAITING + 3) for x in pairs.wait(f"r{n}", "a", n, 100.0)]
    assert gone == [0, 1, 2]
    assert not pairs.overdue(99.0), "told a little out of order"
    assert len(pairs.overdue(90.0)) == Pairs.MAX_WAITING, "the clock jumped back: wait no longer"


def test_sources_are_bounded() -> None:
    sources = Sources()
    for number in range(10_000):
        sources.answered(f"s{number}")
        assert 0.0 <= sources.charge(f"s{number}", paired=False) <= 1.0
    assert len(sources._sources) <= 4096


def test_a_unit_that_is_asked_again_itself_is_charged_once_and_at_once() -> None:
    ledger = Ledger(UNITS)
    first = Response("a", "r1", "short", "h", Kind.CORRUPT, (), "id", 0.0, marked=True, attempt=1)
    assert not ledger.record(first)
    changes = ledger.record(first._replace(attempt=2, at=0.1))
    assert [c.after for c in changes] == [State.OBSERVE]
    once = ledger.tracks("a")[0][2].corrupt.value
    assert not ledger.tick(60.0), "nothing waits any more"
    assert ledger.tracks("a")[0][2].corrupt.value == once
    assert ledger.pairs == {"none": 1}


def test_a_unit_that_answers_well_when_asked_again_itself_is_charged_for_the_first() -> None:
    ledger = Ledger(UNITS)
    first = Response("a", "r1", "short", "h", Kind.CORRUPT, (), "id", 0.0, marked=True, attempt=1)
    ledger.record(first)
    changes = ledger.record(first._replace(kind=Kind.CLEAN, marked=False, attempt=2, at=0.1))
    assert [c.after for c in changes] == [State.OBSERVE]


def late(traffic: Traffic, text: str, number: int) -> None:
    """A verdict that came after the beginning: no other unit is asked."""
    traffic.answer("a", Kind.CORRUPT, request_id=str(number), source=f"client {number}", text=text)


@pytest.mark.parametrize(
    ("text", "state"), [("the same answer", State.QUARANTINE), ("", State.QUARANTINE)]
)
def test_a_unit_that_spoils_everything_is_found_also_when_all_answers_are_one(
    text: str, state: State
) -> None:
    traffic = Traffic()
    for number in range(12):
        late(traffic, text, number)
    assert traffic.state("a") is state


@pytest.mark.parametrize("repeated", [True, False])
def test_one_request_that_many_clients_repeat_condemns_no_unit(repeated: bool) -> None:
    chance, traffic = random.Random(5), Traffic()
    for number in range(5000):
        if chance.random() < 0.03:
            late(traffic, "the same answer" if repeated else f"answer {number}", number)
        else:
            traffic.answer("a", Kind.CLEAN, source=f"client {number}")
    found = State.QUARANTINE in [change.after for change in traffic.changes]
    assert found is not repeated


def test_what_another_unit_answered_well_is_charged_in_full_each_time() -> None:
    traffic = Traffic()
    for number in range(3):
        traffic.retried(str(number), Kind.CORRUPT, Kind.CLEAN, text="the same answer")
    assert traffic.state("a") is State.QUARANTINE
