"""Whatever happens to several sidecars, they come to one view and then rest."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from extproc.detect import Kind
from extproc.health import Ledger, Response, State
from extproc.health.agreement import Agreement
from extproc.health.shared import Key, Telling, supersedes, telling, was_first
from extproc.units import Unit

UNITS = [Unit("a", release="r1", fallback=("b",)), Unit("b", release="r1", verified=True)]
ROUNDS = 6


class Place:
    """Where all tell: what Redis keeps, by the same rules."""

    def __init__(self) -> None:
        self.told: dict[Key, Telling] = {}

    def exchange(self, one: Agreement, at: float) -> None:
        own = one.shared()
        for key, each in own.items():
            if supersedes(each, self.told.get(key)):
                self.told[key] = telling(each.as_dict())
        heard = [
            each
            for key, each in self.told.items()
            if supersedes(each, own.get(key)) or (key in own and was_first(each, own[key]))
        ]
        if heard:
            one.adopt(heard, at)


class Sidecar:
    def __init__(self, name: str) -> None:
        self.ledger = Ledger(UNITS)
        self.agreement = Agreement(self.ledger, name, (), UNITS)

    def do(self, what: str, unit: str, at: float) -> None:
        ledger, release = self.ledger, self.ledger.release(unit)
        if what == "corrupt":
            for _ in range(3):
                ledger.record(Response(unit, "r1", "short", "h", Kind.CORRUPT, (), "", at))
        elif what == "clean":
            for _ in range(60):
                ledger.record(Response(unit, "r1", "short", "h", Kind.CLEAN, (), "", at))
        elif what == "release":
            ledger.record(Response(unit, "r2", "short", "h", Kind.CLEAN, (), "", at))
        elif what == "hold":
            ledger.hold_out(unit, "x", at)
        elif what == "let in":
            ledger.let_in(unit, "x", at)
        elif what == "verify":
            ledger.verify(unit, release, at + 3, "gates", at)
        elif what == "withdraw":
            ledger.withdraw(unit, release, "x", at)

    @property
    def view(self) -> list[object]:
        found: list[object] = []
        for unit in ("a", "b"):
            said = {v.release: v for v in self.ledger.verifications if v.unit == unit}
            held = self.ledger.held(unit) is not None
            found.append((held, self.ledger.class_state(unit, "short"), said))
        return found


STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(
            ["corrupt", "clean", "release", "hold", "let in", "verify", "withdraw", "exchange"]
        ),
        st.sampled_from("ab"),
    ),
    max_size=25,
)


@given(STEPS)
def test_any_course_of_events_ends_in_one_view_and_in_rest(
    steps: list[tuple[int, str, str]],
) -> None:
    three, place, at = [Sidecar(name) for name in "xyz"], Place(), 0.0
    for which, what, unit in steps:
        at += 1.0
        if what == "exchange":
            place.exchange(three[which].agreement, at)
        else:
            three[which].do(what, unit, at)
    at += 10.0
    for _ in range(ROUNDS):
        for each in three:
            each.ledger.tick(at)
            place.exchange(each.agreement, at)
    rest = dict(place.told)
    for each in three:
        assert each.view == three[0].view
        place.exchange(each.agreement, at)
    assert place.told == rest, "somebody goes on telling"


def test_of_equal_tellings_the_first_stands_and_the_others_know() -> None:
    one, two, place = Sidecar("x"), Sidecar("z"), Place()
    for each in (one, two):
        each.do("corrupt", "a", 1.0)
    place.exchange(one.agreement, 2.0)
    place.exchange(two.agreement, 2.0)
    (told,) = place.told.values()
    assert told.by == "x"
    assert two.agreement.shared()[told.key].by == "x"
    assert two.ledger.unit_state("a") is State.QUARANTINE
