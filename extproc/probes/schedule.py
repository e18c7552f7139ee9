"""Which cell is next, while nothing is the matter: each in turn, in an order of chance. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence

from extproc.probes.results import Cell


class Rounds:
    """Visits every cell once in each round, in a new seeded order, units in turn.

    So each stratum (unit and context class) gets its share whatever the others have, and two
    probes of one unit are as far apart as its neighbours allow. Cells may come and go: those that
    a round has not met yet are met in it.
    """

    def __init__(self, seed: int = 0) -> None:
        self._rng = random.Random(seed)
        self._met: set[Cell] = set()
        self._order: list[Cell] = []

    def next(self, cells: Sequence[Cell]) -> Cell | None:
        """The next of ``cells``, None when there are none."""
        present = set(cells)
        if not present:
            return None
        self._met &= present
        waiting = present - self._met
        if not waiting:
            self._met.clear()
            waiting = present
            self._order = []
        if set(self._order) != waiting:
            self._order = self._shuffled(waiting)
        cell = self._order.pop(0)
        self._met.add(cell)
        return cell

    def _shuffled(self, cells: set[Cell]) -> list[Cell]:
        """A random order in which strata follow each other in turn."""
        strata: dict[tuple[str, str], list[Cell]] = {}
        for cell in sorted(cells):
            strata.setdefault((cell.unit, cell.context), []).append(cell)
        queues = list(strata.values())
        for queue in queues:
            self._rng.shuffle(queue)
        self._rng.shuffle(queues)
        order: list[Cell] = []
        while queues:
            for queue in queues:
                order.append(queue.pop())
            queues = [queue for queue in queues if queue]
        return order
