"""The filter: where it stands, how it is set, and its sidecar."""

from __future__ import annotations

from tests.unit.audit.good import PREFIX, Config, host, manager, options, processor, route
from tests.unit.audit.layouts import aggregate, upstream
from tests.unit.audit.spoilt.base import (
    both,
    breaker,
    case,
    disable,
    drop,
    endpoint,
    extra_filter,
    metadata_options,
    modes,
    put,
    sidecar,
    unit_route,
)

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
    "listeners[0].filter_chains[0].filters[0].typed_config.route_config.virtual_hosts[0].routes[0]"
    ".route.cluster",
    label="a second route past it",
)
case(
    "filter-after-router",
    lambda c: manager(c, "unit_a")["http_filters"].reverse(),
    "listeners[1].filter_chains[0].filters[0].typed_config.http_filters[1]",
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
    extra_filter(
        "extensions.filters.http.compressor.v3.Compressor",
        1,
        compressor_library={
            "name": "gzip",
            "typed_config": {"@type": PREFIX + "extensions.compression.gzip.compressor.v3.Gzip"},
        },
    ),
    "http_filters[1]",
)
case(
    "buffer-filter",
    extra_filter("extensions.filters.http.buffer.v3.Buffer", 0, "front", max_request_bytes=1048576),
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
    put(modes, response_body_mode="FULL_DUPLEX_STREAMED", response_trailer_mode="SEND"),
    "response_body_mode",
)
case(
    "full-duplex-fail-open",
    put(modes, response_body_mode=4, response_trailer_mode="SEND"),
    label="by number",
)
case("body-buffered", put(modes, response_body_mode="BUFFERED"), "response_body_mode")
case(
    "body-buffered",
    put(modes, request_body_mode="BUFFERED"),
    "request_body_mode",
    also=["prompts-sent"],
    label="request",
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
HTTP_SERVICE = {
    "http_service": {
        "http_uri": {"uri": "http://s/", "cluster": "semantic_extproc", "timeout": "1s"}
    }
}
case(
    "http-service",
    lambda c: processor(c).update(http_service=HTTP_SERVICE, grpc_service=None, processing_mode={}),
    also=["body-not-sent"],
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
case(
    "sidecar-stream-duration",
    lambda c: options(c, "semantic_extproc").update(
        common_http_protocol_options={"max_stream_duration": "30s"}
    ),
    "common_http_protocol_options.max_stream_duration",
)
case(
    "sidecar-stream-duration",
    lambda c: options(c, "semantic_extproc").update(
        common_http_protocol_options={"max_stream_duration": "120s"}
    ),
    severity="warning",
    label="2 min",
)
case(
    "sidecar-health-check",
    put(sidecar, health_checks=[{"http_health_check": {"path": "/"}}]),
    "health_checks[0].http_health_check",
)
case(
    "sidecar-health-check",
    put(
        sidecar,
        health_checks=[{"http_health_check": {"path": "/"}}],
        common_lb_config={"healthy_panic_threshold": {"value": 0}},
    ),
    severity="error",
    label="without panic",
)
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
