"""What a sidecar has at heart, without its servers."""

from __future__ import annotations

from extproc.detect import Finding, Kind
from extproc.health import Evidence, Ledger, Response
from extproc.processor import Services
from extproc.signals import Metrics
from extproc.units import Registry, Unit


class Heard:
    """A sink that keeps what it is told."""

    def __init__(self) -> None:
        self.records: list[Evidence] = []

    def evidence(self, record: Evidence) -> None:
        """Takes one record."""
        self.records.append(record)


def services_of(*units: Unit) -> Services:
    """Services over an empty book."""
    return Services(Registry(units), Ledger(units), Metrics())


def corrupt(services: Services, unit: str, times: int = 3) -> None:
    """So many corrupt responses of a unit, of one host, to as many requests."""
    finding = Finding("repetition", "period", 64, 16)
    for at in range(times):
        services.record(Response(unit, "r1", "short", "h", Kind.CORRUPT, (finding,), f"{at}", at))
