"""Which releases of which units may take others' traffic, and until when. Pure.

A verification is of one release: a unit that goes on to another one is not verified by it. One that
ends, by its time or because the unit runs another release now, is told once.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

KEPT = 4
"""Releases of one unit whose verification is kept; the oldest word goes first."""


class Verification(NamedTuple):
    """``until`` and ``at`` (when it was said) are Unix time in seconds. ``until`` 0: withdrawn.

    ``cause``: by whom and why. ``lapsed``: its end has been told.
    """

    unit: str
    release: str
    until: float
    cause: str
    at: float
    lapsed: bool = False

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return self._asdict()

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Verification:
        """The one that ``as_dict`` described. Raises KeyError, TypeError or ValueError."""
        until, at = float(content["until"]), float(content["at"])
        if not (math.isfinite(until) and math.isfinite(at)):
            raise ValueError("a time that is no number")
        unit, release, cause = (str(content[name]) for name in ("unit", "release", "cause"))
        return cls(unit, release, until, cause, at, bool(content["lapsed"]))


class Verifications:
    """Of all units. ``vouched``: units whose present release the configuration vouches for."""

    def __init__(self, vouched: Iterable[str] = ()) -> None:
        self._of: dict[str, OrderedDict[str, Verification]] = {}
        self.vouch(vouched)

    def vouch(self, units: Iterable[str]) -> None:
        """These are the units that the configuration vouches for now."""
        self._vouched = frozenset(units)

    def __iter__(self) -> Iterator[Verification]:
        for releases in self._of.values():
            yield from releases.values()

    def put(self, verification: Verification) -> None:
        """Takes one in, in place of an earlier one of that release."""
        releases = self._of.setdefault(verification.unit, OrderedDict())
        releases.pop(verification.release, None)
        releases[verification.release] = verification
        while len(releases) > KEPT:
            releases.popitem(last=False)

    def get(self, unit: str, release: str) -> Verification | None:
        """What is said of a release."""
        return self._of.get(unit, OrderedDict()).get(release)

    def present(self, unit: str, met: list[str]) -> Verification | None:
        """What is said of the release that ``unit`` runs now. ``met``: its releases as they were
        met, the latest last; of a unit that has answered nothing, the latest word stands."""
        releases = self._of.get(unit)
        if not releases:
            return None
        return releases.get(met[-1]) if met else next(reversed(releases.values()))

    def verified(self, unit: str, met: list[str], now: float) -> bool:
        """Whether ``unit`` may take others' traffic. The configuration's word counts as long as
        nothing has been said of a release that the unit has run."""
        said = self.present(unit, met)
        if said is not None:
            return said.until > now
        return unit in self._vouched and not any(self.get(unit, release) for release in met)

    def lapse(self, unit: str, met: list[str], now: float) -> list[Verification]:
        """Marks and returns those that have ended since they were said."""
        ended = []
        for said in list(self._of.get(unit, OrderedDict()).values()):
            replaced = said.release in met[:-1]
            if not said.lapsed and (said.until <= now or replaced):
                marked = said._replace(lapsed=True)
                self._of[unit][said.release] = marked  # in its place
                if not (replaced and self.verified(unit, met, now)):
                    ended.append(marked)
        return ended

    @property
    def units(self) -> list[str]:
        """Units of which something is said."""
        return list(self._of)
