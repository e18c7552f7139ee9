"""Records for the tests of stores."""

from __future__ import annotations

from extproc.detect import Finding, Kind
from extproc.health.evidence import Evidence, Subject
from extproc.health.states import State

FINDING = Finding("repetition", "period", 31, 16, shape='"!" x 31')


def verdict(number: int, unit: str = "a", at: float | None = None) -> Evidence:
    """A record of a corrupt response."""
    return Evidence(
        id=f"{number:x}-test",
        subject=Subject.VERDICT,
        at=float(number) if at is None else at,
        unit=unit,
        release="r1",
        context="short",
        host="h",
        verdict=Kind.CORRUPT,
        findings=(FINDING,),
        request_id=f"request-{number}",
    )


def change(number: int, unit: str = "a") -> Evidence:
    """A record of a change of state."""
    return Evidence(
        id=f"{number:x}-test",
        subject=Subject.STATE,
        at=float(number),
        unit=unit,
        release="r1",
        context="short",
        host="*",
        verdict=Kind.CORRUPT,
        before=State.PASS,
        after=State.QUARANTINE,
        cause="alarmed",
        e_value=1e5,
    )
