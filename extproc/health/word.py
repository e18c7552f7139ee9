"""What is said of a unit from outside: by operators, and by the other sidecars of a fleet. Pure."""

from __future__ import annotations

from extproc.health.evidence import Subject
from extproc.health.report import ALL, Change
from extproc.health.standing import Standing
from extproc.health.states import State
from extproc.health.track import Release, Track
from extproc.health.verification import Verification


class Word(Standing):
    """The standing of all units, and those whose word changes it."""

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

    def verify(self, unit: str, release: str, until: float, cause: str, at: float) -> list[Change]:
        """Until ``until`` (Unix time in seconds) ``release`` of ``unit`` may take others' traffic:
        it has passed its gates. ``cause``: by whom and why."""
        return self._say(Verification(unit, release, until, cause, at), f"verified: {cause}", at)

    def withdraw(self, unit: str, release: str, cause: str, at: float) -> list[Change]:
        """``release`` of ``unit`` may no longer take others' traffic."""
        said = Verification(unit, release, 0.0, cause, at, lapsed=True)
        return self._say(said, f"withdrawn: {cause}", at)

    def lapses(self, at: float) -> list[Change]:
        """Verifications that ended since the last call."""
        self._now = at
        changes: list[Change] = []
        for unit in self._verifications.units:
            for said in self._verifications.lapse(unit, self.releases(unit), at):
                why = "its time is over" if said.until <= at else "another release runs now"
                changes.append(self._told(said, f"lapsed: {why}", at))
        return changes

    def adopt_verification(self, said: Verification, at: float) -> list[Change]:
        """Takes over what another sidecar was told, or has told, of a release."""
        word = "withdrawn" if not said.until else "lapsed" if said.lapsed else "verified"
        return self._say(said, f"{word}: {said.cause}", at)

    def _say(self, said: Verification, cause: str, at: float) -> list[Change]:
        self._now = max(self._now, at)
        self._verifications.put(said)
        return [self._told(said, cause, at)]

    def _told(self, said: Verification, cause: str, at: float) -> Change:
        state = self.unit_state(said.unit)
        return Change(
            said.unit, ALL, ALL, said.release, state, state, cause, 0.0, at,
            subject=Subject.VERIFICATION,
        )  # fmt: skip

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
                track.restart(cause, at)

    def _by_hand(self, unit: str, before: State, reason: str, at: float) -> list[Change]:
        now = self.unit_state(unit)
        cause = f"operator: {reason}"
        return [Change(unit, ALL, ALL, self.release(unit), before, now, cause, 0.0, at)]
