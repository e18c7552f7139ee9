"""Prometheus metrics. Names, labels and meanings are listed in docs/metrics.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import prometheus_client
from prometheus_client import CollectorRegistry, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from extproc.detect import Kind
from extproc.health import Change, Ledger, Response, State, Subject
from extproc.health.states import worst
from extproc.signals.cover import Cover
from extproc.signals.keeping import Keeping
from extproc.signals.labels import CLASSES, RELEASES, UNITS, Cap, Capped
from extproc.signals.probing import Probing
from extproc.signals.processes import Processes
from extproc.units import Registry

PREFIX = "semantic_extproc_"

MET = 4096
"""Units by release and class that are remembered as met; more are looked up each time."""

TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
"""W3C Trace Context, "traceparent"; later versions may append fields."""

SERVERS = ("grpc", "admin", "xds")
"""Of ours, those that may speak TLS."""

_TRACED = frozenset({Kind.CORRUPT, Kind.SUSPECT})

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each counter, which no dashboard reads


class Metrics:
    """All metrics of one sidecar, in a registry of their own."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.exposed: Any = self.registry
        """What is shown when metrics are read: with workers, the sum over all of them."""

        self._caps = {"unit": Cap(UNITS), "release": Cap(RELEASES), "class": Cap(CLASSES)}
        self._met: dict[tuple[str, str, str], dict[Kind, Any]] = {}

        def counter(name: str, text: str, *labels: str) -> Any:
            made = prometheus_client.Counter(PREFIX + name, text, labels, registry=self.registry)
            caps = tuple(self._caps.get(label) for label in labels)
            return Capped(made, caps) if any(caps) else made

        self._responses = counter(
            "responses", "Responses by verdict", "unit", "release", "class", "verdict"
        )
        self.unchecked = counter("unchecked", "Responses not judged, by reason", "unit", "reason")
        self._findings = counter("findings", "Findings by reason", "unit", "detector", "reason")
        self._changes = counter("state_changes", "State changes", "unit", "class", "state", "cause")
        self._verifications = counter(
            "verifications", "What was said of releases as fallbacks", "unit", "word"
        )
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
        self.loop_lag = Histogram(
            PREFIX + "event_loop_lag_seconds",
            "How late the event loop woke for its tick, once a second",
            buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
            registry=self.registry,
        )
        self.open_streams = Gauge(
            PREFIX + "open_streams", "Responses being read", registry=self.registry
        )
        self.keeping = Keeping(self.registry)
        self.probing = Probing(self.registry, self._caps)
        self.processes = Processes()
        self.registry.register(self.processes)
        self.stalls = counter("loop_stalls", "Times that an event loop stood still for a second")
        self.link_queue = Gauge(
            PREFIX + "link_queue",
            "Records of workers that the authority has not made durable yet",
            registry=self.registry,
        )
        self.link_dropped = counter(
            "link_dropped", "Records of workers that did not fit the queue to the authority"
        )
        self.webhooks = counter("webhooks", "Webhooks by what became of them", "target", "outcome")
        self.webhook_queue = Gauge(
            PREFIX + "webhook_queue", "Webhooks waiting", ("target",), registry=self.registry
        )
        self.xds_streams = Gauge(
            PREFIX + "xds_streams", "Streams of Envoys to the xDS server", registry=self.registry
        )
        self.xds_responses = counter("xds_responses", "Resources sent to Envoys", "type")
        self.xds_refusals = counter("xds_refusals", "Resources that an Envoy refused", "type")
        self._certificates = counter(
            "certificate_reloads", "Readings of replaced certificates", "server", "outcome"
        )
        for server in SERVERS:
            self.certificate(server)
        self.build_info = Gauge(
            PREFIX + "build_info", "1 for the running version", ("version",), registry=self.registry
        )

    def certificate(self, server: str) -> Callable[[str], None]:
        """Counts what became of replaced certificates of one of ``SERVERS``: "ok" or "refused"."""
        # Both from the start: what is born with its first event shows no increase.
        counters = {word: self._certificates.labels(server, word) for word in ("ok", "refused")}
        return lambda outcome: counters[outcome].inc()

    def response(self, response: Response) -> None:
        """Counts one judged response."""
        who = (response.unit, response.release, response.context)
        counters = self._met.get(who)
        # A counter that is born with its first event shows no increase: who is met for the first
        # time gets all of them, so that the first corrupt answer is seen.
        if counters is None:
            counters = {kind: self._responses.labels(*who, kind.value) for kind in Kind}
            if len(self._met) < MET:
                self._met[who] = counters
        child = counters[response.kind]
        if response.kind in _TRACED:
            child.inc(exemplar=exemplar(response.traceparent))
        else:
            child.inc()
        for finding in response.findings:
            self._findings.labels(response.unit, finding.detector, finding.reason).inc()

    def change(self, change: Change) -> None:
        """Counts one change. An operator's words are no label."""
        cause = change.cause.partition(":")[0]
        if change.subject is Subject.VERIFICATION:
            self._verifications.labels(change.unit, cause).inc()
            return
        self._changes.labels(change.unit, change.context, change.after.value, cause).inc()

    def watch(self, ledger: Ledger, registry: Registry) -> None:
        """Exports the states and e-values of ``ledger``, and how the units of ``registry`` are
        covered, whenever metrics are read."""
        self.registry.register(_States(ledger, self._caps))
        self.registry.register(Cover(ledger, registry, self._caps["unit"]))


def exemplar(traceparent: str) -> dict[str, str] | None:
    """The exemplar of a response: the trace it belongs to, None if it names none.

    The header comes from outside; only a trace id in the form that the standard gives is kept.
    """
    found = TRACEPARENT.fullmatch(traceparent) if traceparent else None
    if found is None or not found[1].strip("0"):
        return None
    return {"trace_id": found[1]}


class _States(Collector):
    def __init__(self, ledger: Ledger, caps: dict[str, Cap]) -> None:
        self._ledger = ledger
        self._caps = caps

    def collect(self) -> list[GaugeMetricFamily | CounterMetricFamily]:
        # What shares the name "other" shows the worst of it: a label set may stand there only once.
        states: dict[str, State] = {}
        drained: Counter[str] = Counter()
        values: dict[tuple[str, str, str], float] = {}
        caps = self._caps
        for unit in self._ledger.units:
            name = caps["unit"](unit)
            states[name] = worst([self._ledger.unit_state(unit), states.get(name, State.PASS)])
            drained[name] += sum(host.drained for host in self._ledger.hosts(unit).values())
            for release, context, track in self._ledger.tracks(unit):
                key = (name, caps["release"](release), caps["class"](context))
                values[key] = max(track.corrupt.value, values.get(key, 0.0))
        shown = [
            _gauge("unit_state", "1 for the state a unit is in", "unit", "state"),
            _gauge("drained_hosts", "Hosts of a unit that are held out alone", "unit"),
            _gauge("e_value", "Evidence against a release of a unit", "unit", "release", "class"),
        ]
        for name, now in states.items():
            for state in State:
                shown[0].add_metric([name, state.value], float(state is now))
            shown[1].add_metric([name], float(drained[name]))
        for key, value in values.items():
            shown[2].add_metric(key, value)
        pairs = CounterMetricFamily(
            PREFIX + "pairs", "Corrupt beginnings by what the other attempt was", labels=["corrupt"]
        )
        until = _gauge(
            "fallback_verified_until_seconds",
            "Unix time until which a unit's present release may take others' traffic; 0 if not",
            "unit",
        )
        said: dict[str, float] = {}
        for each in self._ledger.verifications:
            present = self._ledger.verification(each.unit)
            end = present.until if present is not None and self._ledger.verified(each.unit) else 0.0
            name = caps["unit"](each.unit)
            said[name] = min(end, said.get(name, end))
        for name, end in said.items():
            until.add_metric([name], end)
        for outcome in ("one", "both", "none"):
            pairs.add_metric([outcome], float(self._ledger.pairs[outcome]))
        return [*shown, until, pairs]


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(PREFIX + name, text, labels=labels)
