"""The metrics that exist, as the registry knows them."""

from __future__ import annotations

from prometheus_client.metrics import MetricWrapperBase

from extproc.health import Ledger
from extproc.signals import Metrics
from extproc.units import Registry

SUFFIX = {"counter": "_total"}


def catalogue() -> dict[str, tuple[str, ...]]:
    """Name as it is written in a query (a histogram without its suffixes) -> labels."""
    metrics = Metrics()
    metrics.watch(Ledger(), Registry())
    found: dict[str, tuple[str, ...]] = {}
    for collector in metrics.registry._collector_to_names:
        for family in collector.collect():
            name = family.name + SUFFIX.get(family.type, "")
            labels = (
                collector._labelnames
                if isinstance(collector, MetricWrapperBase)
                else getattr(family, "_labelnames", ())
            )
            found[name] = tuple(labels)
    return found


def known_series() -> set[str]:
    """Every name that a query may use: a histogram has three."""
    names = set(catalogue())
    histograms = {name for name in names if name.endswith("_seconds")}
    return names | {f"{name}_{part}" for name in histograms for part in ("bucket", "count", "sum")}
