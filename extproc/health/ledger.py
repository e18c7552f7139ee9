"""The book of responses: who answered, how it was judged, and what state that leaves a unit in.

Pure: time comes with each record. One writer at a time; nothing here awaits.

Rules:
- Evidence is charged to the smallest thing that explains it: the request (pairs.py), its source
  (sources.py), the answer that comes again and again (echoes.py), the host, the unit in one context
  class.
- When a release is met for the first time, what was held against the earlier ones is dropped,
  because they are being replaced; evidence that still arrives counts anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from extproc.detect import Kind
from extproc.health.blame import Charge, culprit
from extproc.health.echoes import Echoes
from extproc.health.edetector import steps_to_multiples, steps_to_rates
from extproc.health.pairs import Pairs
from extproc.health.report import ALL, Change, HealthSettings, Probes, Response
from extproc.health.sources import Sources
from extproc.health.states import Signal, State, after
from extproc.health.track import Host, Release, Track
from extproc.health.word import Word
from extproc.units import Unit

RELEASES_KEPT = 4
"""Releases of one unit that are told apart; a rollout has two, a hasty rollback three."""

MAX_PROBES = 1000
"""Probes of one run that count; more say nothing more."""


class Ledger(Word):
    """Health of all units."""

    def __init__(
        self, units: Iterable[Unit] = (), settings: HealthSettings = HealthSettings()
    ) -> None:
        super().__init__(units, settings)
        self._sources: dict[str, Sources] = {}
        self._echoes: dict[str, Echoes] = {}
        self._pairs: Pairs[Response] = Pairs(settings.pair_seconds)
        self.pairs: Counter[str] = Counter()
        """How pairs came out: ``one`` unit was corrupt, ``both`` were, or there was ``none``."""

    def configure(self, units: Iterable[Unit], settings: HealthSettings) -> None:
        """Goes by other units and settings from now on. What is known stays."""
        super().configure(units, settings)
        self._pairs.seconds = settings.pair_seconds

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
        later = response.attempt > 1
        changes += self.began_well(response.request_id, response.unit, response.at, later)
        if not host.drained:
            changes += self._not_corrupt(response, track)
        return changes

    def began_well(self, request_id: str, unit: str, at: float, later: bool = True) -> list[Change]:
        """``unit`` answered well, so far, what another may have answered badly: that one pays.
        ``later``: it was not the first to be asked."""
        if not request_id:
            return []
        first = self._pairs.meet(request_id, unit)
        if first is not None:
            self.pairs["one"] += 1
            return self._charge(first._replace(at=at), paired=True)
        changes = self._asked_again(request_id, unit, at)
        if changes is None and later:
            self._pairs.came_early(request_id, unit, at)
        return changes or []

    def tick(self, at: float) -> list[Change]:
        """Charges what waited in vain for another attempt, and ends what was verified for a time.
        To be called once a second or so."""
        changes = self.lapses(at)
        for response in self._pairs.overdue(at):
            self.pairs["none"] += 1
            changes += self._charge(response._replace(at=at), paired=False)
        return changes

    def probed(self, probes: Probes) -> list[Change]:
        """Takes a run of active probes into the book.

        If all passed, what was quarantined of that release by evidence starts again in
        ``observe``, and hosts that were drained get traffic again; nothing else changes, for
        probes say less than traffic. If some failed, each is evidence as a corrupt response is,
        and each that passed as a clean one; they count among no responses. What an operator holds
        out stays out. Raises ValueError for a release that the unit does not run, and for failed
        probes of no single class.
        """
        releases = self._releases(probes.unit)
        if not releases:
            releases[probes.release] = Release()
        release = releases.get(probes.release)
        if release is None:
            raise ValueError(f"unit {probes.unit!r} is not known to run {probes.release!r}")
        if not probes.failed:
            return self._recovered(probes, release) if probes.passed else []
        if probes.context == ALL:
            raise ValueError("failed probes are evidence in one context class: name it")
        response = Response(
            probes.unit, probes.release, probes.context, probes.host, Kind.CORRUPT,
            probes.findings, "", probes.at,
        )  # fmt: skip
        changes: list[Change] = []
        track = self._track(release, response)
        steps = steps_to_rates(self._rates.corrupt(probes.unit, probes.context))
        for _ in range(min(probes.passed, MAX_PROBES)):
            track.corrupt.update(False, steps)
        track.clean_run = 0
        for _ in range(min(probes.failed, MAX_PROBES)):
            changes += self._charge(response, paired=True)
        return [change._replace(cause=f"probes: {probes.cause}") for change in changes]

    def _recovered(self, probes: Probes, release: Release) -> list[Change]:
        cause = f"probes: {probes.cause}"
        changes: list[Change] = []

        def told(context: str, host: str) -> None:
            changes.append(
                Change(
                    probes.unit, context, host, probes.release,
                    State.QUARANTINE, State.OBSERVE, cause, 0.0, probes.at,
                )
            )  # fmt: skip

        for name, host in release.hosts.items():
            if host.drained and probes.host in (ALL, name):
                host.drained = False
                told(probes.context, name)
        for context, track in release.tracks.items():
            if (
                track.state is State.QUARANTINE
                and probes.host == ALL
                and probes.context in (ALL, context)
            ):
                track.restart(cause, probes.at)
                told(context, ALL)
        return changes

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
        if self._pairs.answered_early(response.request_id, response.unit):
            self.pairs["one"] += 1
            return self._charge(response, paired=True)
        changes = self._asked_again(response.request_id, response.unit, response.at)
        if changes is not None:
            return changes  # the same request to the same unit: it says nothing twice
        changes = []
        for gone in self._pairs.wait(response.request_id, response.unit, response, response.at):
            changes += self._charge(gone, paired=False)
        return changes

    def _asked_again(self, request_id: str, unit: str, at: float) -> list[Change] | None:
        """Charges ``unit`` for its earlier attempt, None if there was none: it was asked again
        itself, so no other unit will answer."""
        first = self._pairs.again(request_id, unit)
        if first is None:
            return None
        self.pairs["none"] += 1
        return self._charge(first._replace(at=at), paired=False)

    def _charge(self, response: Response, paired: bool) -> list[Change]:
        releases = self._releases(response.unit)
        release = releases.get(response.release)
        if release is None:  # replaced while the charge waited
            return []
        weight = self._source(response.unit).charge(response.source, paired)
        if not (paired or response.marked):
            weight *= self._echoes.setdefault(response.unit, Echoes()).weight(response.text)
        # Probes of no single host are charged to none.
        if not weight or (response.host != ALL and release.host(response.host).drained):
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
                track.restart("new release", response.at)
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

    def _source(self, unit: str) -> Sources:
        return self._sources.setdefault(unit, Sources())

    def _track(self, release: Release, response: Response) -> Track:
        track = release.tracks.get(response.context)
        if track is None:
            state = State.OBSERVE if release.watched else State.PASS
            track = release.tracks[response.context] = Track(state, response.at)
        return track
