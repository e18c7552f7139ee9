"""The book of responses: who answered, how it was judged, and what state that leaves a unit in.

Pure: time comes with each record. One writer at a time; nothing here awaits.

A unit's state in a class is the worst over the releases it is known to run: during a rollout the
hosts of one unit run two. When a release is met for the first time, what was held against the
earlier ones is dropped, because they are being replaced; evidence that still arrives counts anew.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from extproc.detect import Finding, Kind
from extproc.health.edetector import DetectorSettings, EDetector
from extproc.health.states import Signal, State, after, worst
from extproc.units import Unit

RELEASES_KEPT = 4
"""Releases of one unit that are told apart; a rollout has two, a hasty rollback three."""


class Response(NamedTuple):
    """One judged response. ``at`` is Unix time in seconds."""

    unit: str
    release: str
    context: str
    host: str
    kind: Kind
    findings: tuple[Finding, ...]
    request_id: str
    at: float


class Change(NamedTuple):
    """One change of state, with what brought it about."""

    unit: str
    context: str
    release: str
    before: State
    after: State
    cause: str
    e_value: float
    findings: tuple[str, ...]
    request_id: str
    at: float


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """``clear_after``: clean responses in a row that end ``observe``."""

    detector: DetectorSettings = DetectorSettings()
    clear_after: int = 50


@dataclass(slots=True)
class Track:
    """One release of a unit in one context class."""

    detector: EDetector
    state: State = State.PASS
    clean_run: int = 0
    counts: Counter[Kind] = field(default_factory=Counter)


class Ledger:
    """Health of all units."""

    def __init__(
        self, units: Iterable[Unit] = (), settings: HealthSettings = HealthSettings()
    ) -> None:
        self._settings = settings
        self._tracks: dict[str, OrderedDict[str, dict[str, Track]]] = {}
        self._held: dict[str, str] = {}  # unit -> the operator's reason for holding it out
        for unit in units:
            releases = self._releases(unit.id)
            if unit.release:
                releases[unit.release] = {}

    def record(self, response: Response) -> list[Change]:
        """Takes one response into the book."""
        changes = self._meet(response)
        track = self._track(response.unit, response.release, response.context)
        track.counts[response.kind] += 1
        if response.kind is Kind.UNCHECKED:
            return changes
        corrupt = response.kind is Kind.CORRUPT
        track.detector.update(corrupt)
        track.clean_run = 0 if corrupt else track.clean_run + 1
        settings = self._settings.detector
        value = track.detector.value
        signal: Signal | None = None
        if value >= 1 / settings.alpha:
            signal = Signal.ALARMED
        elif value >= settings.observe_at:
            signal = Signal.WARNED
        elif track.clean_run >= self._settings.clear_after and value <= 1.0:
            signal = Signal.CLEARED
        if signal is not None:
            changes += self._move(track, response, signal)
        return changes

    def state(self, unit: str, context: str) -> State:
        """The state of a unit in one context class."""
        if unit in self._held:
            return State.QUARANTINE
        releases = self._tracks.get(unit)
        if not releases:
            return State.PASS
        return worst([t.state for c in releases.values() if (t := c.get(context)) is not None])

    def unit_state(self, unit: str) -> State:
        """The worst state over a unit's classes."""
        if unit in self._held:
            return State.QUARANTINE
        releases = self._tracks.get(unit) or OrderedDict()
        return worst([track.state for classes in releases.values() for track in classes.values()])

    def release(self, unit: str) -> str:
        """The release met last by a unit, "" if none."""
        return next(reversed(self._tracks[unit]), "") if unit in self._tracks else ""

    def tracks(self, unit: str) -> list[tuple[str, str, Track]]:
        """(release, class, track) of all that is known of a unit."""
        return [
            (release, context, track)
            for release, classes in self._tracks.get(unit, {}).items()
            for context, track in classes.items()
        ]

    @property
    def units(self) -> list[str]:
        """Ids of the units in the book."""
        return list(self._tracks)

    def held(self, unit: str) -> str | None:
        """The reason an operator gave for holding a unit out, or None."""
        return self._held.get(unit)

    def hold_out(self, unit: str, reason: str, at: float) -> list[Change]:
        """An operator's quarantine: it stays until ``let_in``."""
        before = self.unit_state(unit)
        self._held[unit] = reason
        return self._by_hand(unit, before, f"operator: {reason}", at)

    def let_in(self, unit: str, reason: str, at: float) -> list[Change]:
        """An operator's release: all evidence is dropped, the unit starts again in ``observe``."""
        before = self.unit_state(unit)
        self._held.pop(unit, None)
        for _, _, track in self.tracks(unit):
            self._restart(track)
        return self._by_hand(unit, before, f"operator: {reason}", at)

    def _by_hand(self, unit: str, before: State, cause: str, at: float) -> list[Change]:
        now = self.unit_state(unit)
        if now is before:
            return []
        return [Change(unit, "*", self.release(unit), before, now, cause, 0.0, (), "", at)]

    def _releases(self, unit: str) -> OrderedDict[str, dict[str, Track]]:
        return self._tracks.setdefault(unit, OrderedDict())

    def _track(self, unit: str, release: str, context: str) -> Track:
        classes = self._releases(unit).setdefault(release, {})
        track = classes.get(context)
        if track is None:
            track = classes[context] = Track(EDetector(self._settings.detector))
            # A class first met under a release that came in watched is watched as well.
            if self._is_new(unit, release):
                track.state = State.OBSERVE
        return track

    def _is_new(self, unit: str, release: str) -> bool:
        return next(iter(self._tracks[unit])) != release

    def _meet(self, response: Response) -> list[Change]:
        releases = self._releases(response.unit)
        if response.release in releases or not releases:
            return []
        changes: list[Change] = []
        for classes in releases.values():
            for context, track in classes.items():
                before = track.state
                self._restart(track)
                if before is not track.state:
                    about = response._replace(context=context, findings=())
                    changes.append(self._change(about, before, track, "new release"))
        while len(releases) >= RELEASES_KEPT:
            releases.popitem(last=False)
        releases[response.release] = {}
        return changes

    @staticmethod
    def _restart(track: Track) -> None:
        track.detector.reset()
        track.clean_run = 0
        track.state = after(track.state, Signal.RELEASED)

    def _move(self, track: Track, response: Response, signal: Signal) -> list[Change]:
        before = track.state
        track.state = after(before, signal)
        if track.state is before:
            return []
        return [self._change(response, before, track, signal.value)]

    @staticmethod
    def _change(response: Response, before: State, track: Track, cause: str) -> Change:
        return Change(
            response.unit,
            response.context,
            response.release,
            before,
            track.state,
            cause,
            track.detector.value,
            tuple(finding.name for finding in response.findings),
            response.request_id,
            response.at,
        )
