"""Metrics of the processes themselves, and of the configuration they run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

PREFIX = "semantic_extproc_"


class Processes(Collector):
    """What whoever starts and reloads processes counts: set as a whole, read at each scrape.

    Not counters that are incremented: the process that counts is not always the one that exports.
    """

    def __init__(self) -> None:
        self.restarts: Counter[tuple[str, str]] = Counter()
        """(process, cause) -> how often it was started again."""

        self.reloads: Counter[str] = Counter(ok=0, refused=0)
        self.reloaded = 0.0
        """Unix time at which the configuration was last taken."""

        self.workers = 0
        """Processes that read answers now."""

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it, without ``workers``."""
        return {
            "restarts": [[*key, number] for key, number in self.restarts.items()],
            "reloads": dict(self.reloads),
            "reloaded": self.reloaded,
        }

    def take(self, told: Mapping[str, Any]) -> None:
        """Shows what ``as_dict`` of another process said."""
        self.restarts = Counter(
            {(str(name), str(cause)): int(number) for name, cause, number in told["restarts"]}
        )
        self.reloads = Counter({str(word): int(number) for word, number in told["reloads"].items()})
        self.reloaded = float(told["reloaded"])

    def collect(self) -> list[GaugeMetricFamily | CounterMetricFamily]:
        """The families, for the registry."""
        restarts = CounterMetricFamily(
            PREFIX + "process_restarts",
            "Processes started again, by what had ended them",
            labels=["process", "cause"],
        )
        for (process, cause), number in self.restarts.items():
            restarts.add_metric([process, cause], float(number))
        reloads = CounterMetricFamily(
            PREFIX + "config_reload", "Readings of the configuration", labels=["outcome"]
        )
        for outcome, number in self.reloads.items():
            reloads.add_metric([outcome], float(number))
        return [
            GaugeMetricFamily(
                PREFIX + "workers", "Processes that read answers now", value=self.workers
            ),
            restarts,
            reloads,
            GaugeMetricFamily(
                PREFIX + "config_last_reload_success_timestamp_seconds",
                "Unix time at which the configuration was last taken",
                value=self.reloaded,
            ),
        ]
