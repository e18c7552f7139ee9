"""What is known of one release of a unit: in each context class, and of each host."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from extproc.detect import Kind
from extproc.health.baseline import Baseline, Tally
from extproc.health.edetector import EDetector
from extproc.health.states import Signal, State, after


@dataclass(slots=True)
class Track:
    """One release of a unit in one context class. ``since``: Unix time of its present state."""

    state: State = State.PASS
    since: float = 0.0
    cause: str = ""
    corrupt: EDetector = field(default_factory=EDetector)
    suspect: EDetector = field(default_factory=EDetector)
    clean_run: int = 0
    counts: Counter[Kind] = field(default_factory=Counter)
    charged: dict[str, float] = field(default_factory=dict)
    """Host -> weight of what was charged since the evidence began to grow."""

    baseline: Baseline = field(default_factory=Baseline)

    def forget(self) -> None:
        """Drops the evidence; what is known of ordinary rates stays."""
        self.corrupt.reset()
        self.suspect.reset()
        self.charged.clear()
        self.clean_run = 0

    def restart(self, cause: str, at: float) -> None:
        """Begins again, watched: a new release, passed probes or an operator's release."""
        self.forget()
        self.state = after(self.state, Signal.RELEASED)
        self.since, self.cause = at, cause

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        settled, recent = self.baseline.settled, self.baseline.recent
        return {
            "state": self.state.value,
            "since": self.since,
            "cause": self.cause,
            "corrupt": self.corrupt.logs,
            "suspect": self.suspect.logs,
            "clean_run": self.clean_run,
            "counts": {kind.value: number for kind, number in self.counts.items()},
            "charged": self.charged,
            "settled": [settled.total, settled.corrupt, settled.suspect],
            "recent": [recent.total, recent.corrupt, recent.suspect],
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Track:
        """The track that ``as_dict`` described. Raises KeyError, TypeError or ValueError."""
        track = cls(
            State(content["state"]),
            float(content["since"]),
            str(content["cause"]),
            EDetector([float(log) for log in content["corrupt"]]),
            EDetector([float(log) for log in content["suspect"]]),
            int(content["clean_run"]),
            Counter({Kind(kind): int(number) for kind, number in content["counts"].items()}),
            {str(host): float(weight) for host, weight in content["charged"].items()},
            Baseline(Tally(*map(int, content["settled"])), Tally(*map(int, content["recent"]))),
        )
        fresh = EDetector()
        if not len(track.corrupt.logs) == len(track.suspect.logs) == len(fresh.logs):
            raise ValueError("a detector of another length")
        return track


@dataclass(slots=True)
class Host:
    """One host of a release."""

    answers: int = 0
    corrupt: int = 0
    drained: bool = False


MAX_HOSTS = 256
"""Hosts of one release that are told apart; more are counted under ``*``."""


@dataclass(slots=True)
class Release:
    """One release of a unit."""

    tracks: dict[str, Track] = field(default_factory=dict)
    """Context class -> track."""

    hosts: dict[str, Host] = field(default_factory=dict)
    watched: bool = False
    """Whether it came in as a new release: a class met first under it is observed."""

    def host(self, name: str) -> Host:
        """The record of a host."""
        if name not in self.hosts and len(self.hosts) >= MAX_HOSTS:
            name = "*"
        return self.hosts.setdefault(name, Host())

    @property
    def drained(self) -> list[str]:
        """Hosts that are held out alone."""
        return [name for name, host in self.hosts.items() if host.drained]

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "watched": self.watched,
            "tracks": {context: track.as_dict() for context, track in self.tracks.items()},
            "hosts": {
                name: [host.answers, host.corrupt, host.drained]
                for name, host in self.hosts.items()
            },
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Release:
        """The release that ``as_dict`` described. Raises KeyError, TypeError or ValueError."""
        return cls(
            {str(name): Track.from_dict(track) for name, track in content["tracks"].items()},
            {
                str(name): Host(int(answers), int(corrupt), bool(drained))
                for name, (answers, corrupt, drained) in content["hosts"].items()
            },
            bool(content["watched"]),
        )
