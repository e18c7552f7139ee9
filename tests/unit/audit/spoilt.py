"""One way or more to trip each check: the shipped configuration, spoilt in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.unit.audit.good import (
    PREFIX,
    Config,
    check,
    cluster,
    host,
    listener,
    manager,
    options,
    processor,
    route,
)
from tests.unit.audit.layouts import aggregate, level, upstream, weighted

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


def extra_filter(name: str, kind: str, at: int, where: str = "unit_a") -> Change:
    """Puts another filter into a chain."""
    entry = {"name": name, "typed_config": {"@type": PREFIX + kind}}
    return lambda config: manager(config, where)["http_filters"].insert(at, entry)


def disable(level_of: Callable[[Config], Config], **value: Any) -> Change:
    """A per-route override of unit A's filter."""
    override = {"@type": PREFIX + "extensions.filters.http.ext_proc.v3.ExtProcPerRoute", **value}
    return put(level_of, typed_per_filter_config={"envoy.filters.http.ext_proc": override})


def unit_route(config: Config) -> Config:
    """Unit A's route, whole."""
    found: Config = host(config, "unit_a")["routes"][0]
    return found


# ---- The filter's place
case(
    "filter-missing",
    lambda c: [manager(c, n)["http_filters"].pop(0) for n in ("unit_a", "unit_b")],
    "http_filters",
    also=["unit-without-traffic"],
)
case(
    "filter-not-attached",
    lambda c: manager(c, "unit_b")["http_filters"].pop(0),
    "listeners[2]",
    also=["unit-without-traffic"],
)
case(
    "filter-not-attached",
    lambda c: host(c)["routes"].insert(
        0, {"match": {"prefix": "/v1/raw"}, "route": {"cluster": "unit_a", "timeout": "0s"}}
    ),
    "listeners[0]",
    label="a second route past it",
)
case(
    "filter-disabled",
    disable(unit_route, disabled=True),
    "typed_per_filter_config",
    also=["unit-without-traffic"],
)
case(
    "filter-disabled",
    disable(lambda c: host(c, "unit_a"), disabled=True),
    "virtual_hosts[0]",
    also=["unit-without-traffic"],
    label="virtual host",
)
case(
    "filter-disabled",
    lambda c: manager(c, "unit_a")["http_filters"][0].update(disabled=True),
    "http_filters[0].disabled",
    also=["unit-without-traffic"],
    label="the filter itself",
)
case(
    "filter-disabled",
    put(
        unit_route,
        typed_per_filter_config={
            "envoy.filters.http.ext_proc": {
                "@type": PREFIX + "config.route.v3.FilterConfig",
                "disabled": True,
            }
        },
    ),
    also=["unit-without-traffic"],
    label="FilterConfig",
)


def _matched(config: Config) -> None:
    entry = manager(config, "unit_a")["http_filters"][0]
    entry["typed_config"] = {
        "@type": PREFIX + "extensions.common.matching.v3.ExtensionWithMatcher",
        "extension_config": {"name": "inner", "typed_config": entry["typed_config"]},
        "xds_matcher": {},
    }


case("filter-sampled", _matched, "typed_config")
case(
    "route-sampled",
    lambda c: (
        host(c, "unit_a")["routes"].append(
            {
                "match": {"prefix": "/"},
                "route": {"cluster": "unit_a", "timeout": "0s"},
                "typed_per_filter_config": {
                    "envoy.filters.http.ext_proc": {
                        "@type": PREFIX + "extensions.filters.http.ext_proc.v3.ExtProcPerRoute",
                        "disabled": True,
                    }
                },
            }
        ),
        unit_route(c)["match"].update(runtime_fraction={"default_value": {"numerator": 10}}),
    ),
    "runtime_fraction",
    also=["filter-disabled"],
)
case(
    "upstream-chain-crash",
    upstream(),
    "http_filters",
    also=["upstream-local-reply", "cluster-unknown-to-envoy"],
)
case(
    "upstream-local-reply",
    upstream(),
    "disable_immediate_response",
    also=["upstream-chain-crash", "cluster-unknown-to-envoy"],
)
case(
    "aggregate-member-filters",
    aggregate(on_members=True),
    "http_filters",
    also=["unit-without-traffic", "filter-not-attached"],
)
case(
    "aggregate-member-error-matcher",
    aggregate(matcher_on_members=True),
    "error_matcher",
    also=["upstream-chain-crash", "upstream-local-reply", "error-matcher-missing"],
)
case(
    "compressor-before-ext-proc",
    extra_filter("c", "extensions.filters.http.compressor.v3.Compressor", 1),
    "http_filters[1]",
)
case(
    "buffer-filter",
    extra_filter("b", "extensions.filters.http.buffer.v3.Buffer", 0, "front"),
    "http_filters[0]",
)
case("internal-listener-extension", lambda c: c.pop("bootstrap_extensions"), "bootstrap_extensions")
case(
    "listener-unknown",
    lambda c: endpoint(c, 1)["address"].update(
        envoy_internal_address={"server_listener_name": "unit_x"}
    ),
    "server_listener_name",
    also=["unit-without-traffic", "retry-same-configuration"],
)
case(
    "cluster-unknown",
    lambda c: route(c, "unit_b").update(cluster="unit_x"),
    ".cluster",
    also=["unit-without-traffic", "retry-same-configuration"],
)

# ---- The filter's settings
case("failure-mode-closed", drop(processor, "failure_mode_allow"), "failure_mode_allow")
case("failure-mode-closed", put(processor, failure_mode_allow=False), label="false")
case(
    "failure-mode-closed",
    both(lambda p: p.update(failure_mode_allow=False, observability_mode=True)),
    also=["marker-forgeable"],
    label="watching",
)
case(
    "failure-mode-closed",
    disable(unit_route, overrides={"failure_mode_allow": False}),
    "overrides.failure_mode_allow",
    label="on a route",
)
case(
    "full-duplex-fail-open",
    put(modes, response_body_mode="FULL_DUPLEX_STREAMED"),
    "response_body_mode",
)
case("full-duplex-fail-open", put(modes, response_body_mode=4), label="by number")
case("body-buffered", put(modes, response_body_mode="BUFFERED"), "response_body_mode")
case(
    "body-buffered", put(modes, request_body_mode="BUFFERED"), "request_body_mode", label="request"
)
case(
    "body-buffered",
    put(modes, response_body_mode="BUFFERED_PARTIAL"),
    severity="warning",
    label="partial",
)
case(
    "buffered-without-headers",
    put(modes, response_body_mode="BUFFERED", response_header_mode="SKIP"),
    also=["body-buffered", "marker-forgeable"],
)
case("body-not-sent", drop(modes, "response_body_mode"), "response_body_mode")
case(
    "body-not-sent",
    disable(unit_route, overrides={"processing_mode": {"response_header_mode": "SEND"}}),
    "overrides.processing_mode",
    label="on a route",
)
case(
    "response-headers-not-sent",
    put(modes, response_header_mode="SKIP"),
    "response_header_mode",
    also=["marker-forgeable"],
)
case("hold-impossible", drop(processor, "send_body_without_waiting_for_header_response"))
case("mode-override-ignored", put(processor, allow_mode_override=True), "allow_mode_override")
case(
    "message-timeout-short",
    drop(processor, "message_timeout"),
    "message_timeout",
    also=["gap-over-message-timeout"],
)
case(
    "message-timeout-short",
    put(processor, message_timeout="0.2s"),
    also=["gap-over-message-timeout"],
    label="as by default",
)
case(
    "message-timeout-short",
    put(processor, message_timeout="0.400s"),
    severity="warning",
    label="nearly",
)
case("message-timeout-long", put(processor, message_timeout="30s"), "message_timeout")
case(
    "max-message-timeout-missing",
    drop(processor, "max_message_timeout"),
    also=["patience-mismatch"],
)
case("mutation-rules", put(processor, mutation_rules={"disallow_all": True}), "mutation_rules")
case(
    "mutation-rules",
    put(
        processor,
        mutation_rules={"disallow_all": True, "allow_expression": {"regex": "x-other-.*"}},
    ),
    label="another",
)
case(
    "mutation-rules",
    put(processor, mutation_rules={"disallow_expression": {"regex": "x-.*"}}),
    label="disallowed",
)
case(
    "mutation-rules",
    put(
        processor,
        mutation_rules={"disallow_all": True, "allow_expression": {"regex": "x-semantic-verdict"}},
    ),
    severity="warning",
    label="annotations",
)
case(
    "mutation-rules-are-errors",
    lambda c: processor(c)["mutation_rules"].update(disallow_is_error=True),
)
case("receiving-namespaces", drop(metadata_options, "receiving_namespaces"), "receiving_namespaces")
case(
    "observability-mode",
    both(lambda p: p.update(observability_mode=True)),
    "observability_mode",
    severity="info",
    also=["marker-forgeable"],
)
case(
    "http-service",
    lambda c: processor(c).update(http_service={"http_service": {}}, grpc_service=None),
)
case(
    "forward-rules",
    put(processor, forward_rules={"allowed_headers": {"patterns": [{"exact": "date"}]}}),
)
case(
    "xds-node-attribute",
    lambda c: processor(c)["response_attributes"].append("xds.node"),
    "response_attributes[",
)

# ---- The sidecar's cluster
case(
    "sidecar-cluster-missing",
    lambda c: processor(c)["grpc_service"].update(envoy_grpc={"cluster_name": "semantic_gone"}),
    "cluster_name",
)
case("sidecar-circuit-breaker", lambda c: sidecar(c).pop("circuit_breakers"), "max_requests")
case(
    "sidecar-circuit-breaker",
    lambda c: breaker(c, "semantic_extproc").update(max_requests=5),
    "max_requests",
    label="5",
)
case(
    "sidecar-circuit-breaker",
    lambda c: c.update(
        layered_runtime={
            "layers": [
                {
                    "name": "s",
                    "static_layer": {
                        "circuit_breakers": {"semantic_extproc": {"default": {"max_requests": 100}}}
                    },
                }
            ]
        }
    ),
    label="by runtime",
)
case("sidecar-not-http2", lambda c: sidecar(c).pop("typed_extension_protocol_options"))
case("sidecar-ejectable", lambda c: sidecar(c).update(outlier_detection={}), "outlier_detection")
case("sidecar-no-hosts", lambda c: sidecar(c).pop("load_assignment"))
case(
    "grpc-receive-limit",
    lambda c: processor(c)["grpc_service"]["envoy_grpc"].update(max_receive_message_length=65536),
)
case(
    "grpc-service-timeout",
    lambda c: (
        processor(c)["grpc_service"].update(timeout="1s"),
        processor(c).pop("message_timeout"),
    ),
    severity="info",
    also=["message-timeout-short", "gap-over-message-timeout"],
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
    lambda c: options(c)["outlier_detection"]["error_matcher"]["or_match"]["rules"].pop(0),
    label="5xx only",
)
case(
    "error-matcher-hides-5xx",
    lambda c: options(c)["outlier_detection"]["error_matcher"]["or_match"]["rules"].pop(1),
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


# ---- Health checks
case("unit-health-missing", drop(cluster, "health_checks"), "health_checks", also=[])
case("unit-health-path", lambda c: check(c)["http_health_check"].update(path="/healthz"), "path")
case(
    "unit-health-address",
    lambda c: endpoint(c).update(health_check_config={"hostname": "unit-a"}),
    "health_check_config.address",
)
case(
    "unit-health-hostname", lambda c: endpoint(c)["health_check_config"].pop("hostname"), "hostname"
)
case(
    "unit-health-other-unit",
    lambda c: endpoint(c)["health_check_config"].update(hostname="unit-b"),
    "hostname",
)
case("no-traffic-interval", drop(check, "no_traffic_interval"), "no_traffic_interval")
case("unhealthy-threshold", put(check, unhealthy_threshold=3), "unhealthy_threshold")
case(
    "unhealthy-threshold",
    lambda c: check(c, "unit_a").update(unhealthy_threshold=3),
    severity="warning",
    label="a unit's hosts",
)
case("healthy-threshold", put(check, healthy_threshold=100))
case("health-check-slow", put(check, interval="30s"), "interval")
case(
    "unit-health-503-ignored",
    lambda c: check(c)["http_health_check"].update(expected_statuses=[{"start": 200, "end": 600}]),
    "expected_statuses",
)
case(
    "unit-health-503-ignored",
    lambda c: check(c)["http_health_check"].update(retriable_statuses=[{"start": 503, "end": 504}]),
    label="retriable",
)
case(
    "unit-health-protocol",
    lambda c: check(c)["http_health_check"].update(codec_client_type="HTTP2"),
)
case(
    "unit-health-over-tls",
    lambda c: cluster(c, "unit_a").update(
        transport_socket={
            "name": "tls",
            "typed_config": {
                "@type": PREFIX + "extensions.transport_sockets.tls.v3.UpstreamTlsContext"
            },
        }
    ),
)

# ---- Streams
case("route-timeout", drop(route, "timeout"), "route.timeout")
case(
    "route-timeout",
    lambda c: route(c, "unit_a").pop("timeout"),
    "listeners[1]",
    label="the unit's tier",
)
case("route-timeout", put(route, timeout="120s"), severity="warning", label="2 min")
case("try-timeout", put(retry, per_try_timeout="10s"), "per_try_timeout")
case("idle-timeout", put(manager, stream_idle_timeout="10s"), "stream_idle_timeout")
case("idle-timeout", put(route, idle_timeout="10s"), "route.idle_timeout", label="of the route")
case(
    "max-stream-duration", put(manager, common_http_protocol_options={"max_stream_duration": "60s"})
)
case(
    "buffer-below-hold",
    lambda c: listener(c, "unit_a").update(per_connection_buffer_limit_bytes=32768),
)
case(
    "buffer-below-hold",
    lambda c: cluster(c, "unit_a").update(per_connection_buffer_limit_bytes=32768),
    label="cluster",
)
case(
    "buffer-huge",
    lambda c: listener(c).update(per_connection_buffer_limit_bytes=1 << 30),
    severity="info",
)

# ---- Identity
case(
    "forwarding-namespaces",
    drop(metadata_options, "cluster_metadata_forwarding_namespaces"),
    severity="warning",
    label="told by clusters",
)
case(
    "forwarding-namespaces",
    drop(metadata_options, "cluster_metadata_forwarding_namespaces"),
    settings=lambda s: s["units"][0].pop("clusters"),
)
case(
    "attributes-missing",
    lambda c: processor(c)["response_attributes"].remove("request.id"),
    "response_attributes",
)
case(
    "attributes-missing",
    drop(processor, "response_attributes"),
    also=["attempt-count-not-sent"],
    label="all",
)
case(
    "attempt-count-missing",
    drop(host, "include_request_attempt_count"),
    "include_request_attempt_count",
)
case(
    "attempt-count-not-sent",
    lambda c: processor(c)["response_attributes"].remove(
        "request.headers['x-envoy-attempt-count']"
    ),
)
case(
    "request-id-stripped",
    put(host, request_headers_to_remove=["X-Request-Id"]),
    "request_headers_to_remove[0]",
)
case("request-id-stripped", put(manager, generate_request_id=False), label="none made")
case(
    "request-id-stripped",
    lambda c: (
        manager(c, "unit_a").pop("generate_request_id"),
        manager(c, "unit_a").update(use_remote_address=True),
    ),
    label="made anew",
)
case(
    "unit-not-named",
    lambda c: cluster(c, "unit_a").pop("metadata"),
    "metadata",
    settings=lambda s: s["units"][0].pop("clusters"),
    also=["unit-without-traffic"],
)
case("units-mixed-in-cluster", lambda c: _mix(c), also=["unit-health-other-unit"])
case(
    "aggregate-unit-metadata",
    aggregate(),
    "metadata",
    also=["upstream-chain-crash", "upstream-local-reply"],
)
case(
    "release-missing",
    lambda c: cluster(c, "unit_a")["metadata"]["filter_metadata"]["semantic.extproc"].pop(
        "release"
    ),
    severity="info",
    settings=lambda s: s["units"][0].pop("release"),
)
case("clients-not-told-apart", lambda c: processor(c)["response_attributes"].pop(), severity="info")


def _mix(config: Config) -> None:
    spoilt = cluster(config, "unit_a")
    del spoilt["metadata"]
    hosts = spoilt["load_assignment"]["endpoints"][0]["lb_endpoints"]
    hosts[0]["metadata"]["filter_metadata"]["semantic.extproc"]["unit"] = "unit-a"
    other = {
        "endpoint": hosts[0]["endpoint"],
        "metadata": {"filter_metadata": {"semantic.extproc": {"unit": "unit-b"}}},
    }
    hosts.append(other)


# ---- Headers, logs and shadows
case("marker-not-removed", drop(host, "response_headers_to_remove"), "response_headers_to_remove")
case(
    "marker-removed-too-early",
    lambda c: manager(c, "unit_a")["http_filters"].insert(
        0,
        {
            "name": "h",
            "typed_config": {
                "@type": PREFIX + "extensions.filters.http.header_mutation.v3.HeaderMutation",
                "mutations": {"response_mutations": [{"remove": "x-semantic-verdict"}]},
            },
        },
    ),
    "remove",
)
case("marker-forgeable", both(lambda p: p.update(observability_mode=True)))
case("client-headers-not-stripped", severity="info")
case(
    "access-log-without-verdict", lambda c: manager(c, "unit_a").pop("access_log"), severity="info"
)
case(
    "log-reads-removed-header",
    lambda c: manager(c)["access_log"][0]["typed_config"]["log_format"]["json_format"].update(
        v="%RESP(X-SEMANTIC-VERDICT)%"
    ),
    severity="info",
)
MIRROR = {"cluster": "unit_b", "runtime_fraction": {"default_value": {"numerator": 5}}}
case("shadow-not-read", put(route, request_mirror_policies=[MIRROR]), "request_mirror_policies[0]")
case(
    "shadow-unbounded", put(route, request_mirror_policies=[{"cluster": "llm"}]), "runtime_fraction"
)
case(
    "shadow-traced",
    lambda c: (
        route(c).update(request_mirror_policies=[{**MIRROR, "cluster": "llm"}]),
        manager(c).update(tracing={}),
    ),
    severity="info",
)

# ---- Envoy and extproc.yaml
case("gap-over-message-timeout", settings=lambda s: s["hold"].update(gap=1.0))
case("patience-mismatch", settings=lambda s: s["hold"].update(patience=90))
case("patience-unused", settings=lambda s: s["hold"].update(patience=0))
case(
    "unit-unknown-to-sidecar",
    lambda c: cluster(c, "unit_a")["metadata"]["filter_metadata"]["semantic.extproc"].update(
        unit="unit-x"
    ),
    "unit",
    also=["unit-without-traffic", "unit-health-other-unit"],
)
case(
    "unit-health-unknown-unit",
    lambda c: endpoint(c)["health_check_config"].update(hostname="unit-x"),
    "hostname",
)
case("cluster-unknown-to-envoy", settings=lambda s: s["units"][0].update(clusters=["unit_z"]))
case(
    "unit-without-traffic",
    settings=lambda s: s["units"].append(
        {"id": "unit-c", "model": "m", "engine": "e", "fallback": ["unit-b"]}
    ),
)
case("no-verified-fallback", settings=lambda s: s["units"][1].pop("verified"))
case("sidecar-address", settings=lambda s: s["grpc"].update(address="127.0.0.1:18090"))
case("unit-health-port", settings=lambda s: s["admin"].update(address="127.0.0.1:18091"))
case("sidecar-tls", lambda c: sidecar(c).update(transport_socket={"name": "tls"}))
case("grpc-message-bytes", settings=lambda s: s["grpc"].update(max_message_bytes=4 << 20))
case(
    "terminate-without-immediate-response",
    put(processor, disable_immediate_response=True),
    settings=lambda s: s.update(late_verdict="terminate"),
)
case("quarantine-share", settings=lambda s: s.update(health={"max_quarantined": 0.2}))

# ---- A running Envoy
RUNNING = {
    "http.unit_a.downstream_rq_total": 100.0,
    "http.unit_b.downstream_rq_total": 100.0,
    "http.unit_a.ext_proc.streams_started": 100.0,
    "http.unit_b.ext_proc.streams_started": 100.0,
}


def running(id: str, name: str, value: float, **more: Any) -> None:
    """A case of a counter."""
    case(id, at=name, stats={**RUNNING, name: value}, **more)


running("no-answer-read", "http.unit_a.ext_proc.streams_started", 0.0)
running("part-not-read", "http.unit_a.ext_proc.streams_started", 50.0)
case(
    "no-traffic-yet",
    stats={
        **RUNNING,
        "http.unit_b.downstream_rq_total": 0.0,
        "http.unit_b.ext_proc.streams_started": 0.0,
    },
    severity="info",
)
running("answers-passed-unread", "http.unit_a.ext_proc.failure_mode_allowed", 3.0)
running("message-timeouts", "http.unit_a.ext_proc.message_timeouts", 3.0)
running("headers-rejected", "http.unit_a.ext_proc.rejected_header_mutations", 3.0)
running("longer-timeout-refused", "http.unit_a.ext_proc.override_message_timeout_ignored", 1.0)
running("streams-failed", "http.unit_a.ext_proc.streams_failed", 1.0)
running("retries-refused", "cluster.llm.upstream_rq_retry_overflow", 57.0)
running("retries-used-up", "cluster.llm.upstream_rq_retry_limit_exceeded", 57.0)
case(
    "panic-happened",
    put(balancing, healthy_panic_threshold={"value": 50}),
    stats={**RUNNING, "cluster.llm.lb_healthy_panic": 2.0},
    also=["panic-threshold"],
)
running("sidecar-overflow", "cluster.semantic_extproc.upstream_rq_pending_overflow", 15.0)
case(
    "sidecar-unreachable",
    stats={
        **RUNNING,
        "cluster.semantic_extproc.upstream_cx_connect_fail": 5.0,
        "cluster.semantic_extproc.upstream_cx_active": 0.0,
    },
)
case(
    "health-check-unanswered",
    stats={
        **RUNNING,
        "cluster.llm.health_check.attempt": 9.0,
        "cluster.llm.health_check.success": 0.0,
        "cluster.llm.health_check.network_failure": 9.0,
    },
)
running("ejections-overflowed", "cluster.llm.outlier_detection.ejections_overflow", 1.0)
