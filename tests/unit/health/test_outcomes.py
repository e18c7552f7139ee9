"""Both answers to one mirrored request."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from extproc.detect import Kind
from extproc.health import Response
from extproc.health.outcomes import MAX_COMPARED, MAX_WAITING, WAIT, Outcomes


def answer(
    unit: str,
    request: str,
    kind: Kind = Kind.CLEAN,
    at: float = 100.0,
    attempt: int = 1,
    marked: bool = False,
    release: str = "r1",
) -> Response:
    return Response(unit, release, "short", "h", kind, (), request, at, marked, attempt)


def counts(outcomes: Outcomes) -> dict[tuple[str, str, str, str], int]:
    return {
        (first.unit, second.unit, one.value, other.value): count
        for first, second, table in outcomes.tables()
        for (one, other), count in table.items()
    }


def test_two_answers_to_one_request_are_a_pair_in_either_order() -> None:
    outcomes = Outcomes()
    outcomes.take(answer("a", "1"))
    outcomes.take(answer("b", "1", Kind.CORRUPT))
    outcomes.take(answer("b", "2", Kind.SUSPECT))
    outcomes.take(answer("a", "2"))
    assert counts(outcomes) == {
        ("a", "b", "clean", "corrupt"): 1,
        ("a", "b", "clean", "suspect"): 1,
    }
    assert len(outcomes) == 0


def test_retries_and_what_was_not_judged_are_no_halves() -> None:
    outcomes = Outcomes()
    outcomes.take(answer("a", "1", Kind.CORRUPT, marked=True))
    outcomes.take(answer("b", "1", attempt=2))  # only because the first was bad
    outcomes.take(answer("a", "2", Kind.CORRUPT, attempt=0, marked=True))
    outcomes.take(answer("b", "2", attempt=0))
    outcomes.take(answer("a", "3", Kind.UNCHECKED))
    outcomes.take(answer("b", "3"))
    outcomes.take(answer("a", ""))
    outcomes.take(answer("b", ""))
    outcomes.take(answer("a", "4"))
    outcomes.take(answer("a", "4"))  # a client that uses one id twice
    assert counts(outcomes) == {}


def test_a_shadow_beside_a_retried_request_pairs_with_its_first_attempt() -> None:
    outcomes = Outcomes()
    outcomes.take(answer("a", "1", Kind.CORRUPT, marked=True))
    outcomes.take(answer("b", "1", attempt=2))
    outcomes.take(answer("c", "1"))
    assert counts(outcomes) == {("a", "c", "corrupt", "clean"): 1}


def test_who_waits_too_long_is_forgotten() -> None:
    outcomes = Outcomes()
    outcomes.take(answer("a", "1"))
    outcomes.take(answer("b", "1", at=100.0 + WAIT))
    assert counts(outcomes) == {}


def test_memory_is_bounded() -> None:
    outcomes = Outcomes()
    for number in range(MAX_WAITING + 50):
        outcomes.take(answer("a", str(number)))
    assert len(outcomes) == MAX_WAITING
    outcomes = Outcomes()
    for number in range(MAX_COMPARED + 10):
        outcomes.take(answer("a", str(number)))
        outcomes.take(answer("b", str(number), release=f"r{number}"))
    assert len(list(outcomes.tables())) == MAX_COMPARED


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.sampled_from("1234"),
            st.sampled_from(list(Kind)),
            st.integers(0, 2000),
            st.integers(0, 2),
            st.booleans(),
        )
    )
)
def test_no_response_is_counted_twice(
    taken: list[tuple[str, str, Kind, int, int, bool]],
) -> None:
    outcomes = Outcomes()
    for unit, request, kind, at, attempt, marked in taken:
        outcomes.take(answer(unit, request, kind, float(at), attempt, marked))
    assert 2 * sum(counts(outcomes).values()) + len(outcomes) <= len(taken)
    assert all(first < second for first, second, _, _ in counts(outcomes))
