"""Health checks, streams, identity."""

from __future__ import annotations

from tests.unit.audit.good import Config, check, cluster, host, listener, manager, processor, route
from tests.unit.audit.layouts import aggregate
from tests.unit.audit.spoilt.base import (
    TLS,
    case,
    drop,
    endpoint,
    extra_filter,
    metadata_options,
    put,
    retry,
)

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
    "unit-health-hostname",
    lambda c: (
        endpoint(c)["health_check_config"].pop("hostname"),
        check(c)["http_health_check"].update(host="llm"),
    ),
    "hostname",
    label="a host that is no unit",
)
case(
    "unit-health-disabled",
    lambda c: endpoint(c)["health_check_config"].update(disable_active_health_check=True),
    "endpoints[0].lb_endpoints[0].endpoint.health_check_config.disable_active_health_check",
)
case(
    "unit-health-other-unit",
    lambda c: (
        endpoint(c, 1)["health_check_config"].pop("hostname"),
        check(c)["http_health_check"].update(host="unit-a"),
    ),
    "http_health_check.host",
    label="one name for both",
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
    lambda c: cluster(c, "unit_a").update(transport_socket=TLS),
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
    "attempt-count-not-sent",
    lambda c: processor(c).update(
        response_attributes=[
            name.replace("'", '"') if "attempt" in name else name
            for name in processor(c)["response_attributes"]
        ]
    ),
    "response_attributes",
    label="in double quotes",
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
    "request-id-stripped",
    extra_filter(
        "extensions.filters.http.header_mutation.v3.HeaderMutation",
        0,
        "front",
        mutations={"request_mutations": [{"remove": "x-request-id"}]},
    ),
    "request_mutations[0].remove",
    label="by a filter",
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
