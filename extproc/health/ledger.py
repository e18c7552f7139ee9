"""The book of responses: who answered, how it was judged, and what state that leaves a unit in.

Pure: time comes with each record. One writer at a time; nothing here awaits.

Rules:
- Evidence is charged to the smallest thing that explains it: the request (pairs.py), its source
  (sources.py), the host, the unit in one context class.
- A unit's state in a class is the worst over the releases it is known to run: during a rollout
  its hosts run two. When a release is met for the first time, what was held against the earlier
  ones is dropped, because they are being replaced; evidence that still arrives counts anew.
- What an operator says stands above all of it, until the operator takes it back.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from typing import Any

from extproc.detect import Kind
from extproc.health.blame import Charge, culprit
from extproc.health.edetector import steps_to_multiples, steps_to_rates
from extproc.health.pairs import Pairs
from extproc.health.rates import Rates
from extproc.health.report import ALL, Change, HealthSettings, Response
from extproc.health.sources import Sources
from extproc.health.states import Signal, State, after, worst
from extproc.health.track import Host, Release, Track
from extproc.units import Unit

RELEASES_KEPT = 4
"""Releases of one unit that are told apart; a rollout has two, a hasty rollback three."""

VERSION = 1
"""Of ``snapshot``."""


class Ledger:
    """Health of all units."""

    def __init__(
        self, units: Iterable[Unit] = (), settings: HealthSettings = HealthSettings()
    ) -> None:
        self.settings = settings
        units = list(units)
        self._units: dict[str, OrderedDict[str, Release]] = {}
        self._sources: dict[str, Sources] = {}
        self._held: dict[str, tuple[str, float]] = {}  # unit -> an operator's reason, and when
        self._pairs: Pairs[Response] = Pairs(settings.pair_seconds)
        self._rates = Rates(units, settings, self._track_of_latest)
        self.pairs: Counter[str] = Counter()
        """How pairs came out: ``one`` unit was corrupt, ``both`` were, or there was ``none``."""

        for unit in units:
            releases = self._releases(unit.id)
            if unit.release:
                releases[unit.release] = Release()

    # -- what arrives ---------------------------------------------------------------------------

    def record(self, response: Response) -> list[Change]:
        """Takes one response into the book."""
        changes = self.tick(response.at) + self._meet(response)
        release = self._releases(response.unit)[response.release]
        track = self._track(release, response)
        host = release.host(response.host)
        track.counts[response.kind] += 1
        host.answers += 1
        if response.kind is Kind.UNCHECKED:
            return changes
        self._source(response.unit).answered(response.source)
        if response.attempt <= 1:
            track.baseline.add(response.kind, track.state is not State.QUARANTINE)
        if response.kind is Kind.CORRUPT:
            host.corrupt += 1
            track.clean_run = 0
            return changes + self._corrupt(response)
        changes += self.began_well(response.request_id, response.unit, response.at)
        if not host.drained:
            changes += self._not_corrupt(response, track)
        return changes

    def began_well(self, request_id: str, unit: str, at: float) -> list[Change]:
        """``unit`` answered well, so far, what another may have answered badly: that one pays."""
        first = self._pairs.meet(request_id, unit) if request_id else None
        if first is None:
            return []
        self.pairs["one"] += 1
        return self._charge(first._replace(at=at), paired=True)

    def tick(self, at: float) -> list[Change]:
        """Charges what waited in vain for another attempt. To be called once a second or so."""
        changes: list[Change] = []
        for response in self._pairs.overdue(at):
            self.pairs["none"] += 1
            changes += self._charge(response._replace(at=at), paired=False)
        return changes

    # -- what is known --------------------------------------------------------------------------

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

    # -- what operators say -----------------------------------------------------------------------

    def hold_out(self, unit: str, reason: str, at: float) -> list[Change]:
        """An operator's quarantine: it stays until ``let_in``."""
        before = self.unit_state(unit)
        self._held[unit] = reason, at
        return self._by_hand(unit, before, reason, at)

    def let_in(self, unit: str, reason: str, at: float) -> list[Change]:
        """An operator's release: all evidence is dropped, the unit starts again in ``observe``."""
        before = self.unit_state(unit)
        self._held.pop(unit, None)
        self._reset(unit, f"operator: {reason}", at)
        return self._by_hand(unit, before, reason, at)

    def impose(
        self, unit: str, context: str, state: State, release: str, cause: str, at: float
    ) -> list[Change]:
        """Takes over a state that another sidecar came to, with all its evidence or the lack of
        it. ``context`` ALL is an operator's word on the whole unit."""

        def present() -> State:
            return self.unit_state(unit) if context == ALL else self.state(unit, context)

        before = present()
        if context == ALL:
            self._held.pop(unit, None)
            if state is State.QUARANTINE:
                self._held[unit] = cause, at
            else:
                self._reset(unit, cause, at)
        else:
            releases = self._releases(unit)
            if not releases or release not in releases:
                releases[release] = Release()
            track = releases[release].tracks.setdefault(context, Track())
            for _, other, each in self.tracks(unit):
                if other == context and (each is track or each.state is State.QUARANTINE):
                    if State.QUARANTINE in (each.state, state):
                        each.forget()
                    else:  # that others saw nothing does not refute what was seen here
                        each.clean_run = 0
                    each.state, each.since, each.cause = state, at, cause
        now = present()
        if now is before:
            return []
        return [Change(unit, context, ALL, release, before, now, cause, 0.0, at)]

    def _reset(self, unit: str, cause: str, at: float) -> None:
        for release in self._releases(unit).values():
            for host in release.hosts.values():
                host.drained = False
            for track in release.tracks.values():
                self._restart(track, cause, at)

    def _by_hand(self, unit: str, before: State, reason: str, at: float) -> list[Change]:
        now = self.unit_state(unit)
        cause = f"operator: {reason}"
        return [Change(unit, ALL, ALL, self.release(unit), before, now, cause, 0.0, at)]

    # -- blame ----------------------------------------------------------------------------------

    def _corrupt(self, response: Response) -> list[Change]:
        other = self._pairs.meet(response.request_id, response.unit) if response.marked else None
        if other is not None:
            self.pairs["both"] += 1
            for one in (response, other):
                self._source(one.unit).failed_twice(one.source)
            return []
        if not (response.marked and response.request_id):
            return self._charge(response, paired=False)
        changes: list[Change] = []
        for gone in self._pairs.wait(response.request_id, response.unit, response, response.at):
            changes += self._charge(gone, paired=False)
        return changes

    def _charge(self, response: Response, paired: bool) -> list[Change]:
        releases = self._releases(response.unit)
        release = releases.get(response.release)
        if release is None:  # replaced while the charge waited
            return []
        host = release.host(response.host)
        weight = self._source(response.unit).charge(response.source, paired)
        if host.drained or not weight:
            return []
        track = self._track(release, response)
        p0 = self._rates.corrupt(response.unit, response.context)
        track.corrupt.update(True, steps_to_rates(p0), weight)
        track.charged[response.host] = track.charged.get(response.host, 0.0) + weight
        value = track.corrupt.value
        if value >= 1 / self.settings.alpha and track.state is not State.QUARANTINE:
            return self._alarm(response, release, track)
        if value >= self.settings.observe_at:
            return self._move(track, response, Signal.WARNED)
        return []

    def _alarm(self, response: Response, release: Release, track: Track) -> list[Change]:
        if culprit(release, track) is Charge.UNIT:
            return self._move(track, response, Signal.ALARMED)
        value = track.corrupt.value
        release.host(response.host).drained = True
        track.forget()
        return [
            Change(
                response.unit, response.context, response.host, response.release,
                State.PASS, State.QUARANTINE, "host", value, response.at, response,
            )
        ]  # fmt: skip

    def _not_corrupt(self, response: Response, track: Track) -> list[Change]:
        settings = self.settings
        track.clean_run += 1
        track.corrupt.update(
            False, steps_to_rates(self._rates.corrupt(response.unit, response.context))
        )
        if track.corrupt.quiet:
            track.charged.clear()
        suspect_rate = self._rates.suspect(response.unit, response.context)
        if suspect_rate is not None:
            track.suspect.update(response.kind is Kind.SUSPECT, steps_to_multiples(suspect_rate))
            value = track.suspect.value
            if value >= 1 / settings.alpha:
                return self._move(track, response, Signal.ALARMED, "suspects", value)
            if value >= settings.observe_at:
                return self._move(track, response, Signal.WARNED, "suspects", value)
        if track.clean_run >= settings.clear_after and track.corrupt.quiet:
            return self._move(track, response, Signal.CLEARED)
        return []

    def _move(
        self,
        track: Track,
        response: Response,
        signal: Signal,
        cause: str = "",
        value: float | None = None,
    ) -> list[Change]:
        before = track.state
        track.state = after(before, signal)
        if track.state is before:
            return []
        track.since, track.cause = response.at, cause or signal.value
        value = track.corrupt.value if value is None else value
        return [
            Change(
                response.unit, response.context, ALL, response.release,
                before, track.state, track.cause, value, response.at, response,
            )
        ]  # fmt: skip

    # -- releases ---------------------------------------------------------------------------------

    def _meet(self, response: Response) -> list[Change]:
        releases = self._releases(response.unit)
        if response.release in releases:
            return []
        changes: list[Change] = []
        first = not releases
        for release in releases.values():
            release.hosts = {name: Host(h.answers, h.corrupt) for name, h in release.hosts.items()}
            for context, track in release.tracks.items():
                before = track.state
                self._restart(track, "new release", response.at)
                if before is not track.state:
                    changes.append(
                        Change(
                            response.unit, context, ALL, response.release,
                            before, track.state, "new release", 0.0, response.at,
                        )
                    )  # fmt: skip
        while len(releases) >= RELEASES_KEPT:
            releases.popitem(last=False)
        releases[response.release] = Release(watched=not first)
        return changes

    @staticmethod
    def _restart(track: Track, cause: str, at: float) -> None:
        track.forget()
        track.state = after(track.state, Signal.RELEASED)
        track.since, track.cause = at, cause

    def _releases(self, unit: str) -> OrderedDict[str, Release]:
        return self._units.setdefault(unit, OrderedDict())

    def _source(self, unit: str) -> Sources:
        return self._sources.setdefault(unit, Sources())

    def _track(self, release: Release, response: Response) -> Track:
        track = release.tracks.get(response.context)
        if track is None:
            state = State.OBSERVE if release.watched else State.PASS
            track = release.tracks[response.context] = Track(state, response.at)
        return track

    def _track_of_latest(self, unit: str, context: str) -> Track | None:
        releases = self._units.get(unit)
        return next(reversed(releases.values())).tracks.get(context) if releases else None

    # -- to outlive the process -----------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """All that must outlive the process, as JSON values."""
        return {
            "version": VERSION,
            "held": {unit: list(word) for unit, word in self._held.items()},
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
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"a book that cannot be read: {error!r}") from None
        self._units.update(units)
        self._held = held
