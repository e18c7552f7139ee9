"""Metrics of active probes."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from extproc.signals.labels import Cap, Capped

PREFIX = "semantic_extproc_probe_"


class Probing:
    """Counts for the prober. ``caps``: of labels, by name."""

    def __init__(self, registry: CollectorRegistry, caps: Mapping[str, Cap]) -> None:
        labels = ("unit", "class", "kind", "outcome")
        made = Counter(PREFIX + "results", "Active probes by outcome", labels, registry=registry)
        self._results = Capped(made, tuple(caps.get(label) for label in labels))
        self._seconds = Histogram(
            PREFIX + "seconds",
            "What a probe took",
            ("kind",),
            buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
            registry=registry,
        )
        self._tokens = Counter(
            PREFIX + "tokens", "Tokens of probes: prompts and answers", registry=registry
        )
        self.budget = Gauge(
            PREFIX + "budget_used",
            "Share of the present window's budget that is spent or reserved",
            ("resource",),
            registry=registry,
        )
        self.leader = Gauge(
            PREFIX + "leader", "1 while this sidecar is the fleet's prober", registry=registry
        )
        passed = Gauge(
            PREFIX + "last_passed_timestamp_seconds",
            "When all probes of a unit and class had passed last",
            ("unit", "class"),
            registry=registry,
        )
        self._passed = Capped(passed, (caps.get("unit"), caps.get("class")))

    def result(
        self, unit: str, context: str, kind: str, outcome: str, seconds: float, tokens: int
    ) -> None:
        """Counts one probe."""
        self._results.labels(unit, context, kind, outcome).inc()
        if seconds > 0:
            self._seconds.labels(kind).observe(seconds)
        if tokens > 0:
            self._tokens.inc(tokens)

    def passed(self, unit: str, context: str, at: float) -> None:
        """The last result of every probe of that class is a pass, or the server lacks it."""
        self._passed.labels(unit, context).set(at)
