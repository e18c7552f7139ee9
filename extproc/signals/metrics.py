"""Prometheus metrics. Names, labels and meanings are listed in docs/metrics.md."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from extproc.health import Change, Ledger, Response, State

PREFIX = "semantic_extproc_"

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each counter, which no dashboard reads


class Metrics:
    """All metrics of one sidecar, in a registry of their own."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(PREFIX + name, text, labels, registry=self.registry)

        self._responses = counter(
            "responses", "Responses by verdict", "unit", "release", "class", "verdict"
        )
        self._findings = counter("findings", "Findings by reason", "unit", "detector", "reason")
        self._changes = counter("state_changes", "State changes", "unit", "class", "state", "cause")
        self.marked = counter("marked", "Responses marked corrupt before a byte was sent", "unit")
        self.terminated = counter("terminated", "Streams ended in band by policy", "unit")
        self.spoofed = counter("spoofed_markers", "Markers that an upstream set itself", "unit")
        self.releases = counter("hold_releases", "Holds ended, by reason", "reason")
        self.chunks = counter("body_chunks", "Response body messages received")
        self.bytes = counter("body_bytes", "Response body bytes received")
        self.errors = counter(
            "internal_errors", "Faults of our own; the response passed uninspected", "where"
        )
        self.health_checks = counter(
            "health_checks", "Answers to Envoy's health checks", "unit", "answer"
        )
        self.hold_seconds = Histogram(
            PREFIX + "hold_seconds",
            "Time the response headers were held",
            buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
            registry=self.registry,
        )
        self.open_streams = Gauge(
            PREFIX + "open_streams", "Responses being read", registry=self.registry
        )

    def response(self, response: Response) -> None:
        """Counts one judged response."""
        self._responses.labels(
            response.unit, response.release, response.context, response.kind.value
        ).inc()
        for finding in response.findings:
            self._findings.labels(response.unit, finding.detector, finding.reason).inc()

    def change(self, change: Change) -> None:
        """Counts one change of state. An operator's words are no label."""
        cause = change.cause.partition(":")[0]
        self._changes.labels(change.unit, change.context, change.after.value, cause).inc()

    def watch(self, ledger: Ledger) -> None:
        """Exports the states and e-values of ``ledger`` whenever metrics are read."""
        self.registry.register(_States(ledger))


class _States(Collector):
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def collect(self) -> list[GaugeMetricFamily]:
        states = GaugeMetricFamily(
            PREFIX + "unit_state", "1 for the state a unit is in", labels=["unit", "state"]
        )
        values = GaugeMetricFamily(
            PREFIX + "e_value",
            "Evidence against a release of a unit",
            labels=["unit", "release", "class"],
        )
        for unit in self._ledger.units:
            now = self._ledger.unit_state(unit)
            for state in State:
                states.add_metric([unit, state.value], float(state is now))
            for release, context, track in self._ledger.tracks(unit):
                values.add_metric([unit, release, context], track.corrupt.value)
        return [states, values]
