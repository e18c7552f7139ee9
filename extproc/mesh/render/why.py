"""Why a value is what it is: comments of what is written, by the end of the setting's path."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

METADATA = (
    "unit: an id of extproc.yaml. release: an image digest or a git sha; a changed release is a "
    "new build whose health starts anew. A host's own metadata wins, so a roll-out host by host "
    "works."
)

FRESH = (
    "Engines drop connections without saying so: llama.cpp after each stream, uvicorn (vLLM) after "
    "5 s of idleness. A request that meets such a drop is a 503 held against the unit. A "
    "connection a request costs nothing beside a generation."
)

WHY: Mapping[str, str] = MappingProxyType(
    {
        # The front's route and listener.
        "stream_idle_timeout": "A long prefill sends nothing for a long time.",
        "use_remote_address": "x-forwarded-for tells the sidecar clients apart.",
        "include_request_attempt_count": "Tells the sidecar which attempt it reads.",
        "request_headers_to_remove": "Names that only the sidecar sets; what clients send under "
        "them goes no further.",
        "response_headers_to_remove": "The retry sees it, the client never.",
        "request_body_buffer_limit": "A retry needs the request again. Over the default, 1 MiB, "
        "Envoy gives the retry up and the client gets the corrupt answer: long prompts with "
        "images are larger.",
        "route.timeout": "A stream may last; stream_idle_timeout guards it.",
        "retry_policy.retry_priority": "Never twice the same unit: each attempt leaves out the "
        "priorities tried before.",
        "request_mirror_policies": "Copies carry the same x-request-id, which pairs the two "
        "answers. A client that hangs up does not cancel its copy: budget the candidate's time.",
        "log_format.json_format": "No header and no body of the prompt, on purpose. In flags, "
        "URX: all attempts used up; UH: no unit is left.",
        # The filter.
        "generate_request_id": "Tier one's id pairs the attempts of one request.",
        "failure_mode_allow": "A sidecar that is down must cost nothing but its judgement.",
        "observability_mode": "Envoy sends copies and waits for nothing: no delay, no retry, and "
        "a sidecar that hangs is not noticed by anybody's client.",
        "message_timeout": "Bounds a stuck sidecar; the default, 200 ms, is less than a pause of "
        "a busy machine.",
        "max_message_timeout": "What a sidecar that is well may ask for instead, while an engine "
        "that has sent its headers still reads the prompt: hold.patience in extproc.yaml.",
        "send_body_without_waiting_for_header_response": "The body flows to the sidecar while the "
        "answer to the headers is still out: so it can look at the first tokens before a header "
        "goes to the front.",
        "processing_mode.request_header_mode": "SKIP: prompts never leave Envoy.",
        "processing_mode.response_body_mode": "Not FULL_DUPLEX_STREAMED: that mode does not honour "
        "failure_mode_allow once body was sent, and a dying sidecar would truncate the answer.",
        "mutation_rules": "The sidecar may set its own headers, no others.",
        "metadata_options": "receiving: the verdict, for the log. forwarding: who the unit is.",
        # The units, as hosts of the front's cluster.
        "common_lb_config.healthy_panic_threshold": "The default, 50 %, sends "
        "traffic to quarantined units once half of them are.",
        "common_lb_config.update_merge_window": "The default, 1 s, keeps workers on an ejected "
        "unit for up to that long.",
        "load_assignment.endpoints.lb_endpoints.endpoint.health_check_config": "The question goes "
        "to the sidecar; the Host header says which unit is meant, or unit@host.",
        "health_checks": "The lasting signal. 503: quarantined. 200 with x-envoy-degraded: used "
        "only if nothing else is left.",
        "health_checks.no_traffic_interval": "The default, 60 s, blinds an idle gateway.",
        "health_checks.unhealthy_threshold": "A 503 counts at once whatever stands here; failed "
        "connections are counted against it. So only the sidecar's word quarantines, and a dead "
        "sidecar leaves things as they are.",
        "outlier_detection.consecutive_5xx": "The fast signal: three marked answers (or 5xx) of a "
        "unit in a row, without waiting for a probe.",
        "outlier_detection.enforcing_consecutive_gateway_failure": "error_matcher says what an "
        "error is.",
        "outlier_detection.enforcing_success_rate": "Compares hosts; units are too few for that.",
        "outlier_detection.max_ejection_percent": "The last unit is never ejected.",
        "outlier_detection.successful_active_health_check_uneject_host": "The default lets the "
        "next good health check undo the ejection.",
        "thresholds.max_retries": "The default allows 3 retries at a time: a burst on a corrupt "
        "unit would reach the clients.",
        "outlier_detection.error_matcher": "Once a matcher is there, Envoy's own notion of an "
        "error is gone: 5xx must be named too.",
        # The hosts.
        "value.metadata": METADATA,
        "common_http_protocol_options.max_requests_per_connection": FRESH,
        "http.maxRequestsPerConnection": FRESH,
        "ignore_health_on_host_removal": "With hosts from EDS: the default keeps a host that was "
        "taken away for as long as it is healthy.",
        "grpc_service.retry_policy": "What a dead worker does not take goes to another one.",
        "lb_policy": "Streams last unequally long: the worker with the fewest gets the next.",
        "grpc_health_check": "A worker that is down gets no streams; if all are, the answers pass "
        "unread (the panic threshold, 50 %, tries them all, and failure_mode_allow lets go).",
        "layered_runtime": "What an operator sets under /runtime_modify while Envoy runs.",
        "bootstrap_extensions": "Without it Envoy refuses internal listeners.",
    }
)
