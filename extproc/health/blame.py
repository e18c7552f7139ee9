"""Host or unit: the smaller thing is to blame as long as it explains the evidence."""

from __future__ import annotations

from enum import StrEnum

from extproc.health.report import ALL
from extproc.health.track import Release, Track


class Charge(StrEnum):
    """Who is charged."""

    HOST = "host"
    UNIT = "unit"


def culprit(release: Release, track: Track) -> Charge:
    """Who is to blame when the evidence in ``track`` reaches the alarm.

    One host, if all of the evidence is its own and it has siblings that answered: a fault of the
    configuration would be theirs as well. A second host with a fault of its own is no accident.
    """
    guilty = [host for host, weight in track.charged.items() if weight > 0]
    siblings = [name for name, host in release.hosts.items() if host.answers and name not in guilty]
    if len(guilty) == 1 and guilty != [ALL] and siblings and not release.drained:
        return Charge.HOST
    return Charge.UNIT
