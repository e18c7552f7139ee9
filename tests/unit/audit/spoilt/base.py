"""What a case is, and how a test spoils a configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.unit.audit.good import PREFIX, Config, cluster, host, manager, options, processor, route

Change = Callable[[Config], Any]


@dataclass(frozen=True)
class Case:
    """A spoilt configuration. ``at``: part of the place that the finding names. ``also``: what
    else is rightly found. ``settings``: a change of extproc.yaml; ``stats``: a running Envoy's."""

    id: str
    change: Change = lambda config: None
    at: str = ""
    also: frozenset[str] = frozenset()
    settings: Change | None = None
    stats: Mapping[str, float] | None = None
    severity: str = ""
    label: str = ""


CASES: list[Case] = []

TLS = {
    "name": "envoy.transport_sockets.tls",
    "typed_config": {"@type": PREFIX + "extensions.transport_sockets.tls.v3.UpstreamTlsContext"},
}


def case(id: str, change: Change = lambda config: None, at: str = "", **more: Any) -> None:
    """Enters a case."""
    also = frozenset(more.pop("also", ()))
    CASES.append(Case(id, change, at, also, **more))


def both(change: Callable[[Config], Any]) -> Change:
    """A change to the filter of both units."""

    def apply(config: Config) -> None:
        for name in ("unit_a", "unit_b"):
            change(processor(config, name))

    return apply


def drop(find: Callable[[Config], Config], *names: str) -> Change:
    """Takes settings away from what ``find`` finds."""

    def apply(config: Config) -> None:
        for name in names:
            del find(config)[name]

    return apply


def put(find: Callable[[Config], Config], **values: Any) -> Change:
    """Gives settings to what ``find`` finds."""
    return lambda config: find(config).update(values)


def retry(config: Config) -> Config:
    """The front's retry policy."""
    found: Config = route(config)["retry_policy"]
    return found


def outlier(config: Config) -> Config:
    """The front's outlier detection."""
    found: Config = cluster(config)["outlier_detection"]
    return found


def breaker(config: Config, name: str = "llm") -> Config:
    """The circuit breaker of a cluster."""
    found: Config = cluster(config, name)["circuit_breakers"]["thresholds"][0]
    return found


def only_rule(config: Config, number: int) -> None:
    """Leaves one rule of the front's error matcher; an or_match of one is refused."""
    detection = options(config)["outlier_detection"]
    detection["error_matcher"] = detection["error_matcher"]["or_match"]["rules"][number]


def sidecar(config: Config) -> Config:
    """The sidecar's cluster."""
    return cluster(config, "semantic_extproc")


def modes(config: Config) -> Config:
    """The processing mode of unit A's filter."""
    found: Config = processor(config)["processing_mode"]
    return found


def balancing(config: Config) -> Config:
    """The front's load-balancing settings."""
    found: Config = cluster(config)["common_lb_config"]
    return found


def metadata_options(config: Config) -> Config:
    """Metadata options of unit A's filter."""
    found: Config = processor(config)["metadata_options"]
    return found


def endpoint(config: Config, number: int = 0, name: str = "llm") -> Config:
    """An endpoint of a cluster, one a priority."""
    groups = cluster(config, name)["load_assignment"]["endpoints"]
    found: Config = groups[number]["lb_endpoints"][0]["endpoint"]
    return found


def extra_filter(kind: str, at: int, where: str = "unit_a", **config: Any) -> Change:
    """Puts another filter into a chain."""
    entry = {"name": kind, "typed_config": {"@type": PREFIX + kind, **config}}
    return lambda config: manager(config, where)["http_filters"].insert(at, entry)


def disable(level_of: Callable[[Config], Config], **value: Any) -> Change:
    """A per-route override of unit A's filter."""
    override = {"@type": PREFIX + "extensions.filters.http.ext_proc.v3.ExtProcPerRoute", **value}
    return put(level_of, typed_per_filter_config={"envoy.filters.http.ext_proc": override})


def unit_route(config: Config) -> Config:
    """Unit A's route, whole."""
    found: Config = host(config, "unit_a")["routes"][0]
    return found
