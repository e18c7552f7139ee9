"""The shipped configuration in other layouts: aggregate, weighted, upstream chain, one tier."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tests.unit.audit.good import (
    OPTIONS,
    PREFIX,
    Config,
    cluster,
    host,
    manager,
    options,
    processor,
    route,
)

HTTP_OPTIONS: Config = {
    "@type": PREFIX + "extensions.upstreams.http.v3.HttpProtocolOptions",
    "explicit_http_config": {"http_protocol_options": {}},
}

CODEC: Config = {
    "name": "envoy.filters.http.upstream_codec",
    "typed_config": {"@type": PREFIX + "extensions.filters.http.upstream_codec.v3.UpstreamCodec"},
}


def guard_of(config: Config) -> dict[str, Any]:
    """The ext_proc filter with its name."""
    return {"name": "envoy.filters.http.ext_proc", "typed_config": copy.deepcopy(processor(config))}


def flat(config: Config) -> None:
    """One tier: the front's priorities are the units' hosts themselves."""
    groups = cluster(config)["load_assignment"]["endpoints"]
    for group, name in zip(groups, ("unit_a", "unit_b"), strict=True):
        own = cluster(config, name)
        entry = group["lb_endpoints"][0]
        address = own["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"]
        entry["endpoint"]["address"] = address
        entry["metadata"] = copy.deepcopy(own["metadata"])
    cluster(config)["ignore_health_on_host_removal"] = True
    resources = config["static_resources"]
    resources["listeners"] = resources["listeners"][:1]
    resources["clusters"] = [
        entry for entry in resources["clusters"] if entry["name"] not in ("unit_a", "unit_b")
    ]


def upstream() -> Callable[[Config], None]:
    """The filter in the front cluster's upstream chain."""

    def change(config: Config) -> None:
        guard = guard_of(config)
        flat(config)
        options(config)["http_filters"] = [guard, CODEC]

    return change


def level() -> Callable[[Config], None]:
    """The filter in the chain of the retrying route itself."""

    def change(config: Config) -> None:
        guard = guard_of(config)
        flat(config)
        manager(config)["http_filters"].insert(0, guard)

    return change


def weighted(refresh: bool = False) -> Callable[[Config], None]:
    """The route sends to two clusters by weight, each in front of one unit."""

    def change(config: Config) -> None:
        front = cluster(config)
        second = copy.deepcopy(front)
        groups = front["load_assignment"]["endpoints"]
        front["load_assignment"]["endpoints"] = groups[:1]
        second["name"] = second["load_assignment"]["cluster_name"] = "llm_b"
        second["load_assignment"]["endpoints"] = [{**groups[1], "priority": 0}]
        for entry in (front, second):  # of one host, one may go
            entry["outlier_detection"]["always_eject_one_host"] = True
        config["static_resources"]["clusters"].append(second)
        action = route(config)
        del action["cluster"]
        action["weighted_clusters"] = {
            "clusters": [{"name": "llm", "weight": 50}, {"name": "llm_b", "weight": 50}]
        }
        if refresh:
            action["retry_policy"]["refresh_cluster_on_retry"] = True

    return change


def aggregate(
    on_members: bool = False, matcher_on_members: bool = False
) -> Callable[[Config], None]:
    """An aggregate of the two units' clusters, the filter in its upstream chain."""

    def change(config: Config) -> None:
        guard = guard_of(config)
        front = cluster(config)
        matcher = options(config)["outlier_detection"]
        resources = config["static_resources"]
        for name in ("unit_a", "unit_b"):
            member = cluster(config, name)
            member["outlier_detection"] = {
                **copy.deepcopy(front["outlier_detection"]),
                "always_eject_one_host": True,
            }
            member["common_lb_config"] = copy.deepcopy(front["common_lb_config"])
            own = copy.deepcopy(HTTP_OPTIONS)
            if on_members:
                own["http_filters"] = [guard, CODEC]
            if matcher_on_members:
                own["outlier_detection"] = matcher
            member["typed_extension_protocol_options"] = {OPTIONS: own}
            if not on_members and matcher_on_members:
                for entry in member["load_assignment"]["endpoints"][0]["lb_endpoints"]:
                    entry["metadata"] = copy.deepcopy(member["metadata"])
        top = copy.deepcopy(HTTP_OPTIONS)
        if not on_members:
            top["http_filters"] = [guard, CODEC]
        if not matcher_on_members:
            top["outlier_detection"] = matcher
        resources["listeners"] = resources["listeners"][:1]
        resources["clusters"][resources["clusters"].index(front)] = {
            "name": "llm",
            "lb_policy": "CLUSTER_PROVIDED",
            "circuit_breakers": front["circuit_breakers"],
            "cluster_type": {
                "name": "envoy.clusters.aggregate",
                "typed_config": {
                    "@type": PREFIX + "extensions.clusters.aggregate.v3.ClusterConfig",
                    "clusters": ["unit_a", "unit_b"],
                },
            },
            "typed_extension_protocol_options": {OPTIONS: top},
        }
        assert host(config)

    return change
