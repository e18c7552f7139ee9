"""What probes know of each unit, as the API and the status page show it. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from extproc.probes.budget import Budget
from extproc.probes.kinds import Outcome
from extproc.probes.matrix import Matrix
from extproc.probes.results import Result, Results


class View:
    """``identity`` and ``release``: of a unit now, "" for an unknown one. ``clock``: Unix time."""

    def __init__(
        self,
        matrix: Matrix,
        results: Results,
        budget: Budget,
        identity: Callable[[str], str],
        release: Callable[[str], str],
        clock: Callable[[], float],
    ) -> None:
        self._matrix = matrix
        self._results = results
        self._budget = budget
        self._identity = identity
        self._release = release
        self._clock = clock

    def described(self, unit: str) -> dict[str, Any] | None:
        """All results of a unit, None for one that is not probed."""
        if unit not in self._matrix.subjects:
            return None
        identity = self._identity(unit)
        used, limit = self._budget.used(self._clock()), self._budget.limit
        return {
            "unit": unit,
            "release": self._release(unit),
            "summary": self.summary(unit),
            "cells": [
                {"class": cell.context, "kind": cell.kind} for cell in self._matrix.cells(unit)
            ],
            "budget": {
                "window_seconds": self._budget.window,
                "used": used._asdict(),
                "limit": limit._asdict(),
            },
            "results": [
                {**result.shown(), "current": self._current(result, identity)}
                for result in self._results.of_unit(unit)
            ],
        }

    def summary(self, unit: str) -> dict[str, Any] | None:
        """How many probes of the present release came out how, None for an unprobed unit."""
        if unit not in self._matrix.subjects:
            return None
        identity = self._identity(unit)
        found = [r for r in self._results.of_unit(unit) if self._current(r, identity)]
        counts = {each.value: sum(r.outcome is each for r in found) for each in Outcome}
        at = max((result.at for result in found), default=None)
        return {"cells": len(self._matrix.cells(unit)), **counts, "at": at}

    def _current(self, result: Result, identity: str) -> bool:
        if identity:
            return result.identity == identity
        return result.release == self._release(result.cell.unit)  # all that can be told from here
