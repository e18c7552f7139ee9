"""What goes into the book and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from extproc.detect import Finding, Kind
from extproc.health.evidence import Subject
from extproc.health.states import State

ALL = "*"
"""Stands for every context class, or every host."""


class Response(NamedTuple):
    """One judged response. ``at`` is Unix time in seconds.

    ``marked``: its beginning was corrupt and the mesh was told so, hence will try another unit.
    ``attempt`` counts from 1, 0 when it is not known. ``source`` is a hash of who asked, or "".
    ``text`` is a hash of a long text that was judged corrupt, or "".
    """

    unit: str
    release: str
    context: str
    host: str
    kind: Kind
    findings: tuple[Finding, ...]
    request_id: str
    at: float
    marked: bool = False
    attempt: int = 0
    source: str = ""
    traceparent: str = ""
    text: str = ""


class Probes(NamedTuple):
    """One run of active probes against one release of a unit. ``at`` is Unix time in seconds.

    ``context`` and ``host`` may be ALL; ``passed`` and ``failed`` count probes. ``findings`` are of
    the failed ones. ``cause``: by whom and why.
    """

    unit: str
    release: str
    context: str
    host: str
    passed: int
    failed: int
    cause: str
    at: float
    findings: tuple[Finding, ...] = ()


class Change(NamedTuple):
    """One change of state, with what brought it about. ``host`` and ``context`` may be ALL.

    ``subject`` VERIFICATION: the state stays, what changed is who may take a unit's traffic.
    """

    unit: str
    context: str
    host: str
    release: str
    before: State
    after: State
    cause: str
    e_value: float
    at: float
    response: Response | None = None
    subject: Subject = Subject.STATE


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """What the book goes by.

    ``floor``: a corrupt rate that is no news at all. ``prior``: what is assumed of a unit whose
    own rate is not known and that has no stable sibling. ``ceiling``: no baseline is taken to be
    higher. ``observe_at`` and ``alpha``: E that brings ``observe``, and 1/E that brings
    ``quarantine``. ``min_sample``: settled answers from which a sibling counts. ``clear_after``:
    clean answers in a row that end ``observe``. ``pair_seconds``: how long a charge waits for
    the other attempt. ``classes_routed``: whether the mesh routes context classes apart; if not,
    a fault in one class takes the whole unit out. ``max_quarantined``: share of the units that may
    be cut off altogether.
    """

    floor: float = 0.001
    prior: float = 0.004
    ceiling: float = 0.02
    observe_at: float = 20.0
    alpha: float = 1e-5
    min_sample: int = 200
    clear_after: int = 50
    pair_seconds: float = 5.0
    classes_routed: bool = False
    max_quarantined: float = 0.5
