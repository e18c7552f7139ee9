"""Where traffic goes: retry, load balancing, outlier detection."""

from __future__ import annotations

from tests.unit.audit.good import Config, cluster, host, options, route
from tests.unit.audit.layouts import level, weighted
from tests.unit.audit.spoilt.base import (
    balancing,
    breaker,
    case,
    drop,
    only_rule,
    outlier,
    put,
    retry,
)

# ---- Retry
case("retry-missing", drop(route, "retry_policy"), "retry_policy")
case("retriable-headers", put(retry, retry_on="5xx,connect-failure"), "retry_on")
case("retriable-headers", drop(retry, "retriable_headers"), "retriable_headers", label="no matcher")
case(
    "retriable-headers",
    put(
        retry, retriable_headers=[{"name": "x-semantic-verdict", "string_match": {"exact": "bad"}}]
    ),
    label="another value",
)
case(
    "retries-healthy-answers",
    put(
        retry,
        retriable_headers=[
            {"name": "x-semantic-verdict", "string_match": {"exact": "corrupt"}},
            {"name": "content-type", "present_match": True},
        ],
    ),
)
case(
    "retriable-request-headers",
    put(retry, retriable_request_headers=[{"name": "x-a", "present_match": True}]),
    severity="info",
)
case("num-retries", put(retry, num_retries=0), "num_retries")
case("num-retries-many", put(retry, num_retries=5), "num_retries")
case("retry-back-off", put(retry, retry_back_off={"base_interval": "5s"}), "base_interval")
case("retry-priority-missing", drop(retry, "retry_priority"), "retry_priority")


def _one_priority(config: Config) -> None:
    for group in cluster(config)["load_assignment"]["endpoints"]:
        group.pop("priority", None)


def _same_unit(config: Config) -> None:
    groups = cluster(config)["load_assignment"]["endpoints"]
    groups[1]["lb_endpoints"][0]["endpoint"] = dict(groups[0]["lb_endpoints"][0]["endpoint"])


case("retry-same-configuration", _same_unit, "load_assignment", also=["unit-without-traffic"])
case(
    "retry-same-configuration", _one_priority, also=["units-share-a-priority"], label="one priority"
)
case(
    "retry-same-configuration",
    lambda c: cluster(c, "unit_b").update(metadata=cluster(c, "unit_a")["metadata"]),
    also=["unit-without-traffic", "unit-health-other-unit"],
    label="one unit, two clusters",
)
case(
    "retry-priority-update-frequency",
    lambda c: retry(c)["retry_priority"]["typed_config"].update(update_frequency=2),
    "update_frequency",
)
case(
    "weighted-without-refresh",
    weighted(),
    "refresh_cluster_on_retry",
    also=["weighted-share-unavailable"],
)
case("weighted-share-unavailable", weighted(refresh=True), "weighted_clusters")
case("marker-too-late", level(), "http_filters", also=["cluster-unknown-to-envoy"])
case("max-retries", lambda c: breaker(c).pop("max_retries"), "max_retries")
case(
    "max-retries",
    lambda c: cluster(c).pop("circuit_breakers"),
    "max_retries",
    also=["front-circuit-breaker"],
    label="no breaker",
)
case("max-retries", lambda c: breaker(c).update(retry_budget={}), "retry_budget", label="budget")
case("max-retries", lambda c: breaker(c).update(max_retries=50), severity="warning", label="50")
case("max-retries", lambda c: route(c).update(priority="HIGH"), label="another priority")
case("request-buffer-limit", drop(host, "request_body_buffer_limit"), "request_body_buffer_limit")
case("request-buffer-limit", put(host, request_body_buffer_limit=65536), label="small")
case(
    "request-buffer-limit",
    put(host, request_body_buffer_limit=2 << 20),
    severity="warning",
    label="2 MiB",
)

# ---- Load balancing
case(
    "update-merge-window",
    drop(balancing, "update_merge_window"),
    "common_lb_config.update_merge_window",
)
case("update-merge-window", put(balancing, update_merge_window="1.000s"), label="as by default")
case("panic-threshold", drop(balancing, "healthy_panic_threshold"), "healthy_panic_threshold")
case("panic-threshold", put(balancing, healthy_panic_threshold={"value": 50}), label="50")
case(
    "panic-threshold",
    lambda c: c.update(
        layered_runtime={
            "layers": [{"name": "s", "static_layer": {"upstream.healthy_panic_threshold": 40}}]
        }
    ),
    label="by runtime",
)


def _two_in_front(config: Config) -> None:
    group = cluster(config)["load_assignment"]["endpoints"][0]["lb_endpoints"]
    group.append(group[0])


case("overprovisioning", _two_in_front, "overprovisioning_factor")
case(
    "overprovisioning",
    lambda c: cluster(c)["load_assignment"].update(policy={"overprovisioning_factor": 50}),
    label="below 100",
)
case("units-share-a-priority", _one_priority, also=["retry-same-configuration"])
case("front-circuit-breaker", lambda c: breaker(c).pop("max_requests"), "max_requests")
case("streams-cut-by-health", put(cluster, close_connections_on_host_health_failure=True))
case(
    "ignore-health-on-host-removal",
    lambda c: (
        cluster(c, "unit_a").pop("ignore_health_on_host_removal"),
        cluster(c, "unit_a").update(type="STRICT_DNS"),
    ),
    "ignore_health_on_host_removal",
)
case(
    "ignore-health-on-host-removal",
    lambda c: cluster(c, "unit_a").pop("ignore_health_on_host_removal"),
    severity="info",
    label="static",
)
case("boot-without-sidecar", severity="info")

# ---- Outlier detection
case("outlier-missing", drop(cluster, "outlier_detection"), "outlier_detection")
case("error-matcher-missing", lambda c: options(c).pop("outlier_detection"), "error_matcher")
case(
    "error-matcher-missing",
    lambda c: only_rule(c, 1),
    label="5xx only",
)
case(
    "error-matcher-hides-5xx",
    lambda c: only_rule(c, 0),
    "error_matcher",
)
case(
    "error-matcher-takes-healthy",
    lambda c: options(c)["outlier_detection"].update(error_matcher={"any_match": True}),
)
case("uneject-on-health-check", drop(outlier, "successful_active_health_check_uneject_host"))
case("ejection-not-enforced", put(outlier, enforcing_consecutive_5xx=0))
case("ejection-late", put(outlier, consecutive_5xx=100))
case("ejection-percent", drop(outlier, "max_ejection_percent"), "max_ejection_percent")
case("ejects-last-unit", put(outlier, max_ejection_percent=100), "max_ejection_percent")
case("ejection-short", put(outlier, base_ejection_time="1s"), "base_ejection_time")
case(
    "success-rate-between-units",
    lambda c: (
        outlier(c).pop("enforcing_success_rate"),
        [
            cluster(c)["load_assignment"]["endpoints"][1]["lb_endpoints"].append(endpoint_copy(c))
            for _ in range(4)
        ],
    ),
    severity="info",
    also=[],
)


def endpoint_copy(config: Config) -> Config:
    """Unit B once more."""
    found: Config = cluster(config)["load_assignment"]["endpoints"][1]["lb_endpoints"][0]
    return found
