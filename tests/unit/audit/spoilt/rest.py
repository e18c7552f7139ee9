"""Headers, logs and shadows; the sidecar's settings; a running Envoy."""

from __future__ import annotations

from typing import Any

from tests.unit.audit.good import PREFIX, Config, cluster, host, manager, processor, route
from tests.unit.audit.spoilt.base import (
    TLS,
    balancing,
    both,
    case,
    drop,
    endpoint,
    modes,
    put,
    sidecar,
)

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
case(
    "client-headers-not-stripped",
    drop(host, "request_headers_to_remove"),
    "request_headers_to_remove",
    severity="info",
)
case(
    "access-log-without-verdict", lambda c: manager(c, "unit_a").pop("access_log"), severity="info"
)


def _verdict_at_the_front(config: Config) -> None:
    log = manager(config)["access_log"][0]["typed_config"]
    log["log_format"]["json_format"]["verdict"] = "%DYNAMIC_METADATA(semantic.extproc:verdict)%"


case("log-reads-other-tier", _verdict_at_the_front, "listeners[0]", severity="info")
case(
    "stat-prefix-shared",
    lambda c: manager(c, "unit_b").update(stat_prefix="unit_a"),
    "listeners[2]",
    severity="info",
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
case("worker-not-listed", settings=lambda s: s.update(server={"workers": 3}))
case("unit-health-port", settings=lambda s: s["admin"].update(address="127.0.0.1:18091"))
case("sidecar-tls", lambda c: sidecar(c).update(transport_socket=TLS))
case("grpc-message-bytes", settings=lambda s: s["grpc"].update(max_message_bytes=4 << 20))
case(
    "terminate-without-immediate-response",
    put(processor, disable_immediate_response=True),
    settings=lambda s: s.update(late_verdict="terminate"),
)
case("prompts-sent", put(modes, request_body_mode="STREAMED"), "request_body_mode")
case(
    "prompts-not-sent",
    settings=lambda s: s.setdefault("mesh", {}).update(requests="shown"),
    at="request_body_mode",
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
