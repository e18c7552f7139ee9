"""The rate that a unit is tested against: the stable sibling's, else its own, else a prior."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from extproc.health.baseline import Baseline
from extproc.health.report import HealthSettings
from extproc.health.states import State
from extproc.health.track import Track
from extproc.units import Unit


class Rates:
    """Baselines of all units. ``track_of``: the latest release's track of (unit, class).
    ``verified``: whether a unit's present release is."""

    def __init__(
        self,
        units: Iterable[Unit],
        settings: HealthSettings,
        track_of: Callable[[str, str], Track | None],
        verified: Callable[[str], bool],
    ) -> None:
        units = list(units)
        self._verified = verified
        self._settings = settings
        self._track_of = track_of
        self._siblings = {unit.id: _siblings(unit, units) for unit in units}

    def corrupt(self, unit: str, context: str) -> float:
        """The corrupt rate that is no news of ``unit`` in a class."""
        settings = self._settings
        known = self._stable(unit, context)
        if known is None:
            track = self._track_of(unit, context)
            known = track.baseline if track is not None else None
        if known is None:
            return settings.prior
        rate = known.corrupt_rate(settings.prior)
        return min(max(rate, settings.floor), settings.ceiling)

    def suspect(self, unit: str, context: str) -> float | None:
        """The suspect rate of the stable sibling; None without one: what is suspect differs too
        much between models and uses to be held against an absolute rate."""
        known = self._stable(unit, context)
        if known is None:
            return None
        return min(max(known.suspect_rate(), self._settings.floor), 0.5)

    def _stable(self, unit: str, context: str) -> Baseline | None:
        for sibling in self._siblings.get(unit, ()):
            track = self._track_of(sibling, context)
            if (
                track is not None
                and self._verified(sibling)
                and track.state is not State.QUARANTINE
                and track.baseline.settled.total >= self._settings.min_sample
            ):
                return track.baseline
        return None


def _siblings(unit: Unit, units: list[Unit]) -> list[str]:
    """Units that do the same work: of the same model, or its fallbacks."""
    return [
        other.id
        for other in units
        if other.id != unit.id
        and (other.id in unit.fallback or (unit.model and other.model == unit.model))
    ]
