from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from extproc.probes.budget import Budget, Cost, Reservation

LIMIT = Cost(5, 1000, 60.0)
COSTS = st.builds(Cost, st.integers(0, 6), st.integers(0, 1200), st.integers(0, 70).map(float))
SHARES = st.floats(0, 1)


class Spending(RuleBasedStateMachine):
    """Whatever is asked for in whatever order, no window holds more than the limit."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.open: list[Reservation] = []
        self.spent: list[tuple[float, Cost]] = []

    @initialize(window=st.sampled_from([1.0, 10.0, 3600.0]))
    def begin(self, window: float) -> None:
        self.budget = Budget(LIMIT, window)

    @rule(seconds=st.floats(0, 20))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(cost=COSTS)
    def a_request_is_sent(self, cost: Cost) -> None:
        made = self.budget.reserve(cost, self.now)
        if made is not None:
            self.open.append(made)

    @rule(data=st.data(), share=SHARES)
    def a_request_ends(self, data: st.DataObject, share: float) -> None:
        if not self.open:
            return
        made = data.draw(st.sampled_from(self.open))
        self.open.remove(made)
        most = made.cost
        cost = Cost(most.requests, int(most.tokens * share), most.seconds * share)
        self.budget.settle(made, cost, self.now)
        self.spent.append((self.now, cost))

    @rule()
    def the_process_starts_again(self) -> None:
        kept = self.budget.snapshot(self.now)
        self.spent += [(self.now, made.cost) for made in self.open]
        self.open.clear()
        self.budget = Budget(LIMIT, self.budget.window)
        self.budget.restore(kept)
        self.budget.restore(kept)

    @invariant()
    def no_window_holds_more_than_the_limit(self) -> None:
        reserved = Cost()
        for made in self.open:
            reserved = reserved.plus(made.cost)
        for end in [at for at, _ in self.spent] + [self.now]:
            total = reserved if end == self.now else Cost()
            for at, cost in self.spent:
                if end - self.budget.window < at <= end:
                    total = total.plus(cost)
            assert total.requests <= LIMIT.requests
            assert total.tokens <= LIMIT.tokens
            assert total.seconds <= LIMIT.seconds + 1e-6


TestSpending: Any = Spending.TestCase
TestSpending.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_what_was_not_spent_may_be_spent() -> None:
    budget = Budget(Cost(2, 100, 10.0), 60.0)
    made = budget.reserve(Cost(1, 100, 10.0), 0.0)
    assert made is not None
    assert budget.reserve(Cost(1, 1, 0.0), 1.0) is None
    budget.settle(made, Cost(1, 20, 1.0), 2.0)
    assert budget.reserve(Cost(1, 80, 9.0), 3.0) is not None


def test_the_time_when_there_is_room_is_told() -> None:
    budget = Budget(Cost(1, 100, 10.0), 60.0)
    made = budget.reserve(Cost(1, 10, 1.0), 0.0)
    assert made is not None
    budget.settle(made, Cost(1, 10, 1.0), 5.0)
    assert budget.free_at(Cost(1, 10, 1.0), 6.0) == 65.0
    assert budget.reserve(Cost(1, 10, 1.0), 64.9) is None
    assert budget.reserve(Cost(1, 10, 1.0), 65.1) is not None
    assert budget.free_at(Cost(1, 101, 1.0), 6.0) is None


def test_a_clock_that_jumps_back_makes_no_room() -> None:
    budget = Budget(Cost(1, 100, 10.0), 60.0)
    made = budget.reserve(Cost(1, 10, 1.0), 1000.0)
    assert made is not None
    budget.settle(made, Cost(1, 10, 1.0), 1000.0)
    assert budget.reserve(Cost(1, 10, 1.0), 100.0) is None


@given(st.lists(st.lists(st.none() | st.floats() | st.text(max_size=2), max_size=5), max_size=3))
def test_a_snapshot_of_something_else_is_refused_or_read(content: list[Any]) -> None:
    budget = Budget(LIMIT)
    try:
        budget.restore(content)
    except ValueError:
        assert budget.used(0.0) == Cost()
