"""Two configuration files that mean different things by one unit's name."""

from __future__ import annotations

import json
from itertools import permutations

import pytest

from extproc.detect import Kind
from extproc.health import Ledger, Response, State
from extproc.health.agreement import Agreement
from extproc.health.definitions import Gateway, definition, disputes
from extproc.units import Unit


def unit(quantization: str = "fp8", release: str = "r1") -> Unit:
    return Unit("a", model="m", engine="vllm", quantization=quantization, release=release)


def gateway(by: str, made: Unit) -> Gateway:
    return Gateway(by, {made.id: definition(made)})


def member(by: str, made: Unit) -> tuple[Ledger, Agreement]:
    ledger = Ledger([made])
    return ledger, Agreement(ledger, by, (), [made])


def broken(ledger: Ledger, release: str = "r1") -> None:
    for _ in range(3):
        ledger.record(Response("a", release, "short", "h", Kind.CORRUPT, (), "", 0.0))


def meet_all(*agreements: Agreement) -> None:
    for each in agreements:
        each.meet([other.gateway for other in agreements])


def tell(here: Agreement, there: Agreement) -> None:
    there.adopt(list(here.shared().values()), 1.0)


def test_what_differs_is_said_with_who_says_it() -> None:
    own = gateway("g1", unit("fp8"))
    (found,) = disputes(own, [own, gateway("g2", unit("int4")), gateway("g3", unit())]).values()
    assert found.differences == "quantization is 'fp8' here, 'int4' on g2"
    assert not found.apart


def test_what_most_say_holds_and_all_come_to_the_same_answer() -> None:
    every = [gateway("g1", unit("int4")), gateway("g2", unit()), gateway("g3", unit())]
    for order in permutations(every):
        apart = {own.by for own in every if disputes(own, order)["a"].apart}
        assert apart == {"g1"}


def test_of_two_the_one_whose_name_sorts_first_holds() -> None:
    one, two = gateway("g1", unit("int4")), gateway("g2", unit())
    assert not disputes(one, [two])["a"].apart
    assert disputes(two, [one])["a"].apart


def test_what_is_not_said_contradicts_nothing() -> None:
    bare = Unit("a", model="m")
    assert not disputes(gateway("g1", unit()), [gateway("g2", bare), Gateway("g3", {})])
    assert not disputes(gateway("g1", bare), [gateway("g2", unit())])


def test_a_field_of_a_later_version_is_no_fault() -> None:
    later = gateway("g2", unit()).as_dict()
    later["units"]["a"]["sparsity"] = "2:4"
    assert not disputes(gateway("g1", unit()), [Gateway.from_dict(later)])


def test_another_release_is_told_and_still_shared() -> None:
    one, here = member("g1", unit(release="r1"))
    two, there = member("g2", unit(release="r2"))
    meet_all(here, there)
    assert not there.disputes["a"].apart
    assert "release is 'r2' here, 'r1' on g1" in there.disputes["a"].differences
    broken(one)
    tell(here, there)
    assert two.unit_state("a") is State.QUARANTINE


def test_another_configuration_is_neither_told_nor_taken_over_and_forgets_nothing() -> None:
    one, here = member("g1", unit("int4"))
    two, there = member("g2", unit("fp8"))
    meet_all(here, there)
    broken(one)
    tell(here, there)
    assert two.unit_state("a") is State.PASS
    broken(two)
    assert two.unit_state("a") is State.QUARANTINE
    assert not there.shared(), "g2 stands apart"
    assert [each.unit for each in here.shared().values()] == ["a"]


def test_an_operator_s_word_is_on_the_name() -> None:
    one, here = member("g1", unit("int4"))
    two, there = member("g2", unit("fp8"))
    meet_all(here, there)
    one.hold_out("a", "a driver update", 0.0)
    tell(here, there)
    assert two.held("a") == "a driver update"


def test_after_a_roll_out_of_the_configuration_all_share_again_and_the_graver_state_holds() -> None:
    one, here = member("g1", unit("int4"))
    two, there = member("g2", unit("fp8"))
    meet_all(here, there)
    one.let_in("a", "x", 0.0)
    broken(two)
    again = Agreement(one, "g1", here.told, [unit("fp8")])  # g1 was restarted
    meet_all(again, there)
    assert not again.disputes
    assert not there.disputes
    tell(again, there)
    tell(there, again)
    assert one.unit_state("a") is two.unit_state("a") is State.QUARANTINE


def test_a_fleet_s_milder_state_does_not_undo_what_was_found_apart() -> None:
    one, here = member("g1", unit("int4"))
    two, there = member("g2", unit("fp8"))
    meet_all(here, there)
    broken(one)
    one.let_in("a", "repaired", 0.0)  # two epochs
    here.shared()
    broken(two)
    assert there.meet([Gateway("g1", {"a": definition(unit("fp8"))})])
    tell(here, there)
    assert two.unit_state("a") is State.QUARANTINE
    tell(there, here)
    assert one.unit_state("a") is State.QUARANTINE


@pytest.mark.parametrize(
    "content",
    [
        None,
        {},
        {"by": 1, "units": {}},
        {"by": "g", "units": []},
        {"by": "g", "units": {"a": 1}},
        {"by": "g", "units": {"a": {"model": 1}}},
        {"by": "g", "units": {"a": {"x" * 1000: "x"}}},
        {"by": "g", "units": {"a": {"model": "x" * 1000}}},
        {"by": "g", "units": {}, "more": 1},
    ],
)
def test_what_no_sidecar_says_of_itself_is_refused(content: object) -> None:
    with pytest.raises(ValueError, match="not a"):
        Gateway.from_dict(content)


def test_a_sidecar_s_definitions_survive_json() -> None:
    one = gateway("g1", Unit("a", model="m", tensor_parallel=2, prefix_cache=False, driver="d"))
    assert Gateway.from_dict(json.loads(json.dumps(one.as_dict()))) == one
