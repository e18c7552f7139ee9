"""What probes may spend in a window of time, and never more. Pure: time is told.

Rules:
- What a request may cost at most is reserved before it is sent, and settled with what it did cost
  after. A request for which no room is left is not sent.
- In every span of ``window`` seconds, what was settled in it and what is reserved stays within the
  limits. Costs count at the time of their settling, the latest at which they can have arisen.
- An engine may break its own promise (an answer longer than ``max_tokens``). What it spent is
  settled all the same, and room is made up for before the next request.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple


class Cost(NamedTuple):
    """Requests that make an engine compute, tokens of prompt and answer, seconds they take."""

    requests: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def plus(self, other: Cost) -> Cost:
        """Both together."""
        return Cost(
            self.requests + other.requests,
            self.tokens + other.tokens,
            self.seconds + other.seconds,
        )

    def within(self, limit: Cost) -> bool:
        """Whether no part is more than that of ``limit``."""
        return all(mine <= theirs for mine, theirs in zip(self, limit, strict=True))


@dataclass(slots=True)
class Reservation:
    """Room that was set aside; it ends with ``Budget.settle``."""

    cost: Cost
    open: bool = True


class Budget:
    """``limit`` in each ``window`` seconds."""

    def __init__(self, limit: Cost, window: float = 3600.0) -> None:
        self.limit = limit
        self.window = window
        self._settled: deque[tuple[float, Cost]] = deque()
        self._reserved: list[Reservation] = []
        self._latest = float("-inf")

    def reserve(self, cost: Cost, at: float) -> Reservation | None:
        """Sets room aside for one request, None while there is not enough."""
        if not self.used(at).plus(cost).within(self.limit):
            return None
        made = Reservation(cost)
        self._reserved.append(made)
        return made

    def settle(self, reservation: Reservation, cost: Cost, at: float) -> None:
        """Takes what a reserved request did cost; settling twice changes nothing."""
        if not reservation.open:
            return
        reservation.open = False
        self._reserved = [each for each in self._reserved if each is not reservation]
        at = self._now(at)
        if cost != Cost():
            self._settled.append((at, cost))

    def used(self, at: float) -> Cost:
        """What the window that ends at ``at`` holds, with all that is reserved."""
        at = self._now(at)
        while self._settled and self._settled[0][0] <= at - self.window:
            self._settled.popleft()
        total = Cost()
        for _, cost in self._settled:
            total = total.plus(cost)
        for reservation in self._reserved:
            total = total.plus(reservation.cost)
        return total

    def free_at(self, cost: Cost, at: float) -> float | None:
        """When there will be room for ``cost``, if nothing else is spent; None: never."""
        if not cost.within(self.limit):
            return None
        total = self.used(at)
        if total.plus(cost).within(self.limit):
            return at
        for settled, gone in self._settled:
            total = Cost(
                total.requests - gone.requests,
                total.tokens - gone.tokens,
                max(0.0, total.seconds - gone.seconds),
            )
            if total.plus(cost).within(self.limit):
                return settled + self.window
        return at + self.window  # what is reserved is settled by then

    def _now(self, at: float) -> float:
        # A clock that jumps back must not let the past be spent again.
        self._latest = max(self._latest, at)
        return self._latest

    def snapshot(self, at: float) -> list[list[float]]:
        """What must outlive the process, as JSON values; what is reserved as if it were spent."""
        at = self._now(at)
        spent = [[when, *cost] for when, cost in self._settled]
        return spent + [[at, *each.cost] for each in self._reserved]

    def restore(self, content: Iterable[Any]) -> None:
        """Takes back a snapshot; what is known here already is not counted again. Raises
        ValueError, and changes nothing, if it cannot be read."""
        try:
            entries = Counter(
                (float(when), Cost(int(requests), int(tokens), float(seconds)))
                for when, requests, tokens, seconds in content
            )
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"a budget that cannot be read: {error}") from None
        if not all(math.isfinite(when) and min(cost) >= 0 for when, cost in entries):
            raise ValueError("a budget that cannot be read: a number is none")
        self._settled = deque(sorted((Counter(self._settled) | entries).elements()))
