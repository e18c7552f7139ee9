"""Metrics of what is kept and shared."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge

PREFIX = "semantic_extproc_"


class Keeping:
    """Counts for the keeper and for the fleet."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._dropped = Counter(
            PREFIX + "evidence_dropped",
            "Records that did not fit the queue to the store",
            registry=registry,
        )
        self._failures = Counter(
            PREFIX + "store_failures", "Saves that the store refused", registry=registry
        )
        self._store_up = Gauge(
            PREFIX + "store_up", "1 while the store takes what is saved", registry=registry
        )
        self._syncs = Counter(
            PREFIX + "fleet_syncs", "Exchanges with the fleet", ("outcome",), registry=registry
        )
        self._adopted = Counter(
            PREFIX + "fleet_adopted", "States taken over from other sidecars", registry=registry
        )
        self._fleet_up = Gauge(
            PREFIX + "fleet_up", "1 while the fleet is reached", registry=registry
        )

        self._definitions = Gauge(
            PREFIX + "fleet_definitions_differ",
            "1 for a unit that another sidecar of the fleet defines differently",
            ("unit", "kept_apart"),
            registry=registry,
        )

    def record_dropped(self) -> None:
        """A record did not fit the queue."""
        self._dropped.inc()

    def store_saved(self, ok: bool) -> None:
        """The store took what it was given, or failed."""
        self._store_up.set(ok)
        if not ok:
            self._failures.inc()

    def fleet_synced(self, ok: bool) -> None:
        """An exchange went through, or not."""
        self._fleet_up.set(ok)
        self._syncs.labels("ok" if ok else "failed").inc()

    def fleet_adopted(self, number: int) -> None:
        """So many states were taken over from others."""
        self._adopted.inc(number)

    def definitions(self, apart: Mapping[str, bool]) -> None:
        """These units are defined differently by others; True: they are kept apart here."""
        self._definitions.clear()
        for unit, kept_apart in apart.items():
            self._definitions.labels(unit, str(kept_apart).lower()).set(1)
