"""What is known of every unit: its releases, classes, hosts, and an operator's hold. Pure.

A unit's state in a class is the worst over the releases it is known to run: during a rollout its
hosts run two. What an operator says stands above it, until the operator takes it back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from extproc.health.rates import Rates
from extproc.health.report import HealthSettings
from extproc.health.states import State, worst
from extproc.health.track import Host, Release, Track
from extproc.health.verification import Verification, Verifications
from extproc.units import Unit

VERSION = 1
"""Of ``snapshot``."""


class Standing:
    """Of all units. Here it is only read; see ``Word`` and ``Ledger`` for what changes it."""

    def __init__(
        self, units: Iterable[Unit] = (), settings: HealthSettings = HealthSettings()
    ) -> None:
        self.settings = settings
        units = list(units)
        self._units: dict[str, OrderedDict[str, Release]] = {}
        self._held: dict[str, tuple[str, float]] = {}  # unit -> an operator's reason, and when
        self._now = 0.0  # the latest time told
        self._verifications = Verifications(unit.id for unit in units if unit.verified)
        self._rates = Rates(units, settings, self._track_of_latest, self.verified)
        for unit in units:
            releases = self._releases(unit.id)
            if unit.release:
                releases[unit.release] = Release()

    def configure(self, units: Iterable[Unit], settings: HealthSettings) -> None:
        """Goes by other units and settings from now on. What is known stays."""
        units = list(units)
        self.settings = settings
        self._verifications.vouch(unit.id for unit in units if unit.verified)
        self._rates = Rates(units, settings, self._track_of_latest, self.verified)
        for unit in units:
            if unit.id not in self._units and unit.release:
                self._releases(unit.id)[unit.release] = Release()

    def state(self, unit: str, context: str) -> State:
        """The state of a unit in one context class."""
        return State.QUARANTINE if unit in self._held else self.class_state(unit, context)

    def class_state(self, unit: str, context: str) -> State:
        """The same by the evidence alone, whatever an operator says."""
        releases = self._units.get(unit)
        if not releases:
            return State.PASS
        tracks = (release.tracks.get(context) for release in releases.values())
        return worst([track.state for track in tracks if track is not None])

    def cause(self, unit: str, context: str) -> str:
        """What brought a class to its state."""
        state = self.class_state(unit, context)
        tracks = [track for _, name, track in self.tracks(unit) if name == context]
        return next((track.cause for track in reversed(tracks) if track.state is state), "")

    def unit_state(self, unit: str) -> State:
        """The state of a unit as a whole: its worst class, or its best where the mesh can route
        classes apart."""
        if unit in self._held:
            return State.QUARANTINE
        classes = {context for _, context, _ in self.tracks(unit)}
        states = [self.state(unit, context) for context in classes]
        if self.settings.classes_routed and State.QUARANTINE in states:
            states = [state for state in states if state is not State.QUARANTINE] or states
        return worst(states)

    def host_drained(self, unit: str, host: str) -> bool:
        """Whether one host of a unit is held out alone."""
        return any(
            (found := release.hosts.get(host)) is not None and found.drained
            for release in self._units.get(unit, {}).values()
        )

    def release(self, unit: str) -> str:
        """The release met last by a unit, "" if none."""
        return next(reversed(self._units[unit]), "") if unit in self._units else ""

    def releases(self, unit: str) -> list[str]:
        """The releases of a unit that are kept apart, the one met last at the end."""
        return list(self._units.get(unit, ()))

    def verified(self, unit: str) -> bool:
        """Whether the release that a unit runs now may take others' traffic."""
        return self._verifications.verified(unit, self.releases(unit), self._now)

    def verification(self, unit: str) -> Verification | None:
        """What was said of the release that a unit runs now, None if nothing was."""
        return self._verifications.present(unit, self.releases(unit))

    @property
    def verifications(self) -> list[Verification]:
        """All that was said of releases, also of others than those that run now."""
        return list(self._verifications)

    def tracks(self, unit: str) -> list[tuple[str, str, Track]]:
        """(release, class, track) of all that is known of a unit."""
        releases = self._units.get(unit, OrderedDict())
        return [
            (name, context, track)
            for name, release in releases.items()
            for context, track in release.tracks.items()
        ]

    def hosts(self, unit: str) -> dict[str, Host]:
        """The hosts of a unit's latest release."""
        releases = self._units.get(unit)
        return next(reversed(releases.values())).hosts if releases else {}

    @property
    def units(self) -> list[str]:
        """Ids of the units in the book."""
        return list(self._units)

    def held(self, unit: str) -> str | None:
        """The reason an operator gave for holding a unit out, or None."""
        return self._held[unit][0] if unit in self._held else None

    def since(self, unit: str) -> float:
        """Unix time from which a unit is in the state it is in; 0 if it never was in another."""
        if unit in self._held:
            return self._held[unit][1]
        state = self.unit_state(unit)
        times = [track.since for _, _, track in self.tracks(unit) if track.state is state]
        return min(times, default=0.0)

    def baseline(self, unit: str, context: str) -> float:
        """The corrupt rate that a unit is tested against in a class."""
        return self._rates.corrupt(unit, context)

    def _releases(self, unit: str) -> OrderedDict[str, Release]:
        return self._units.setdefault(unit, OrderedDict())

    def _track_of_latest(self, unit: str, context: str) -> Track | None:
        releases = self._units.get(unit)
        return next(reversed(releases.values())).tracks.get(context) if releases else None

    # -- to outlive the process -----------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """All that must outlive the process, as JSON values."""
        return {
            "version": VERSION,
            "held": {unit: list(word) for unit, word in self._held.items()},
            "verifications": [said.as_dict() for said in self._verifications],
            "units": {
                unit: {name: release.as_dict() for name, release in releases.items()}
                for unit, releases in self._units.items()
            },
        }

    def restore(self, book: dict[str, Any]) -> None:
        """Takes back a snapshot. Raises ValueError, and changes nothing, if it cannot be read."""
        if book.get("version") != VERSION:
            raise ValueError(f"a book of version {book.get('version')!r}, not {VERSION}")
        try:
            units = {
                str(unit): OrderedDict(
                    (str(name), Release.from_dict(release)) for name, release in releases.items()
                )
                for unit, releases in book["units"].items()
            }
            held = {
                str(unit): (str(reason), float(at)) for unit, (reason, at) in book["held"].items()
            }
            said = [Verification.from_dict(each) for each in book.get("verifications", ())]
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"a book that cannot be read: {error!r}") from None
        self._units.update(units)
        self._held = held
        for each in said:
            self._verifications.put(each)
