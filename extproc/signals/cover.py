"""Metrics of how units are covered: what happens, or would happen, when one is quarantined."""

from __future__ import annotations

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from extproc.health import Ledger, Severity, severity, standby
from extproc.signals.labels import Cap
from extproc.units import Registry

PREFIX = "semantic_extproc_"


class Cover(Collector):
    """Read whenever metrics are. ``cap`` is that of the label ``unit``; what shares the name
    ``other`` shows the worst of it."""

    def __init__(self, ledger: Ledger, registry: Registry, cap: Cap) -> None:
        self._ledger = ledger
        self._registry = registry
        self._cap = cap

    def collect(self) -> list[GaugeMetricFamily]:
        """How units are out, which are verified, and which have somebody to take over."""
        ledger, registry = self._ledger, self._registry
        modes: dict[str, set[Severity]] = {}
        for unit in ledger.units:
            modes.setdefault(self._cap(unit), set()).add(severity(unit, ledger, registry))
        verified: dict[str, bool] = {}
        ready: dict[str, bool] = {}
        for known in registry:
            name = self._cap(known.id)
            verified[name] = ledger.verified(known.id) and verified.get(name, True)
            if known.fallback:
                covered = bool(standby(known.id, ledger, registry))
                ready[name] = covered and ready.get(name, True)
        mode = GaugeMetricFamily(
            PREFIX + "quarantine_mode", "1 for the way a unit is out", labels=["unit", "mode"]
        )
        for name, found in modes.items():
            for each in (Severity.HARD, Severity.SOFT):
                mode.add_metric([name, each.value], float(each in found))
        return [
            mode,
            _by_unit("unit_verified", "1 while a unit's present release is verified", verified),
            _by_unit("fallback_ready", "1 while a verified fallback of a unit is well", ready),
        ]


def _by_unit(name: str, text: str, values: dict[str, bool]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(PREFIX + name, text, labels=["unit"])
    for unit, value in values.items():
        family.add_metric([unit], float(value))
    return family
