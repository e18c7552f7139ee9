"""The matrix: units, their classes, the kinds; what is due in it, and why. Pure.

Rules, the first that applies:
- What somebody asked for by hand.
- A class that evidence has quarantined: all of it, again and again with growing pauses. When all
  that the server offers has passed, the unit is let in.
- A class of which cells were never judged under the unit's present identity (a deployment, or a
  change of release, version, driver, backend, quantization, ...): all of those.
- Now and then one cell, each in its turn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import NamedTuple

from extproc.probes.kinds import NAMES, Band, Outcome
from extproc.probes.results import Cell, Results
from extproc.probes.schedule import Rounds
from extproc.probes.target import Target
from extproc.units import Unit

_NO_IDENTITY = {"id", "fallback", "verified", "release"}


class Why(StrEnum):
    """What a job is for."""

    ASKED = "asked"
    RECOVERY = "recovery"
    DEPLOYMENT = "deployment"
    SAMPLE = "sample"


class Job(NamedTuple):
    """Cells of one unit and class, to be probed one after the other."""

    why: Why
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """A unit with a place where it can be probed. ``kinds``: those that are wanted."""

    unit: Unit
    target: Target
    kinds: tuple[str, ...] = NAMES

    def identity(self, release: str, engine: str) -> str:
        """Stands for everything by which results could differ. ``engine``: what the server says of
        itself."""
        described = {
            each.name: getattr(self.unit, each.name)
            for each in fields(self.unit)
            if each.name not in _NO_IDENTITY
            and isinstance(getattr(self.unit, each.name), str | int)
        }
        text = repr((sorted(described.items()), release, engine))
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def bands(classes: Sequence[tuple[str, int]], last: str) -> tuple[Band, ...]:
    """The context classes as bands of request size: (name, largest body) in order, and ``last``."""
    found, low = [], 0
    for name, high in classes:
        found.append(Band(name, low, high))
        low = high
    return (*found, Band(last, low))


class Pauses:
    """When what failed is tried again: after ``first`` seconds, then twice that, to ``longest``."""

    def __init__(self, first: float = 30.0, longest: float = 600.0) -> None:
        self._first = first
        self._longest = longest
        self._next: dict[tuple[str, str], tuple[float, float]] = {}

    def due(self, key: tuple[str, str], at: float) -> bool:
        """Whether it may be tried now."""
        return at >= self.since(key)

    def since(self, key: tuple[str, str]) -> float:
        """From when on it may be tried; 0 for what was not tried in vain. By this, one that hangs
        each time does not keep the others waiting."""
        return self._next.get(key, (0.0, 0.0))[0]

    def failed(self, key: tuple[str, str], at: float) -> None:
        """It was tried in vain."""
        pause = min(self._longest, 2 * self._next[key][1]) if key in self._next else self._first
        self._next[key] = (at + pause, pause)

    def clear(self, key: tuple[str, str]) -> None:
        """It went well, or is not needed any more."""
        self._next.pop(key, None)


class Matrix:
    """What is due. ``quarantined`` tells whether evidence holds a class of a unit out."""

    def __init__(
        self,
        subjects: Iterable[Subject],
        bands: Sequence[Band],
        results: Results,
        quarantined: Callable[[str, str], bool],
        *,
        interval: float = 60.0,
        first_pause: float = 30.0,
        longest_pause: float = 600.0,
        seed: int = 0,
    ) -> None:
        self.subjects = {subject.unit.id: subject for subject in subjects}
        self.bands = {band.name: band for band in bands}
        self._results = results
        self._quarantined = quarantined
        self._interval = interval
        self._rounds = Rounds(seed)
        self.recovery = Pauses(first_pause, longest_pause)
        self.deployment = Pauses(first_pause, longest_pause)
        self._sampled: float | None = None

    def cells(
        self, unit: str, contexts: Iterable[str] = (), kinds: Iterable[str] = ()
    ) -> list[Cell]:
        """Cells of a unit, of some classes and kinds or of all."""
        wanted = set(kinds)
        return [
            Cell(unit, context, kind)
            for context in (contexts or self.bands)
            for kind in NAMES
            if kind in self.subjects[unit].kinds and (not wanted or kind in wanted)
        ]

    def due(self, identities: Mapping[str, str], at: float) -> Job | None:
        """The next job at ``at`` (Unix time), None for nothing. ``identities``: of the units whose
        server has said who it is; the others are not sampled."""
        recovering, deploying = [], []
        for unit in self.subjects:
            for context in self.bands:
                key = unit, context
                if self._quarantined(*key):
                    if self.recovery.due(key, at):
                        recovering.append(key)
                    continue
                self.recovery.clear(key)
                if self.deployment.due(key, at) and self._unknown(*key, identities.get(unit, "")):
                    deploying.append(key)
        if recovering:
            unit, context = min(recovering, key=self.recovery.since)
            return Job(Why.RECOVERY, tuple(self.cells(unit, [context])))
        if deploying:
            unit, context = min(deploying, key=self.deployment.since)
            cells = self._unknown(unit, context, identities.get(unit, ""))
            return Job(Why.DEPLOYMENT, tuple(cells))
        if self._sampled is None:
            self._sampled = at  # a restart is no reason for a sample
        if not 0 <= at - self._sampled < self._interval:
            waiting = [
                cell
                for unit in self.subjects
                if unit in identities
                for cell in self.cells(unit)
                if not self._quarantined(unit, cell.context)
            ]
            cell = self._rounds.next(waiting)
            if cell is not None:
                self._sampled = at
                return Job(Why.SAMPLE, (cell,))
        return None

    def _unknown(self, unit: str, context: str, identity: str) -> list[Cell]:
        """Cells that have no judgement under the unit's identity."""
        found = []
        for cell in self.cells(unit, [context]):
            last = self._results.last(cell)
            known = last is not None and identity and last.identity == identity
            if not known or (last is not None and last.outcome is Outcome.ERROR):
                found.append(cell)
        return found
