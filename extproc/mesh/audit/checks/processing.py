"""Do the filter's settings let the sidecar see, judge and mark answers, and fail open?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from extproc.mesh.audit.finding import Hit, Severity, Theme
from extproc.mesh.audit.guard import Guard
from extproc.mesh.audit.matchers import matches_regex, matches_string
from extproc.mesh.audit.node import Node
from extproc.mesh.audit.reach import Mesh
from extproc.mesh.audit.world import BODY_MODES, MARKER, OWN_HEADERS

THEME = Theme("The filter's settings")

DEFAULT_MESSAGE_TIMEOUT = 0.2
"""Seconds. Envoy's ``message_timeout`` when it is left out."""

MODES = """
processing_mode:
  request_header_mode: SKIP
  response_header_mode: SEND
  response_body_mode: STREAMED
send_body_without_waiting_for_header_response: true
"""


@THEME.check(
    "failure-mode-closed",
    Severity.ERROR,
    "failure_mode_allow is not true",
    "A sidecar that is down or restarts then breaks answers: 500, or a stream cut off. "
    "Observability mode does not help: there, too, the client got 37 or 370 of 764 bytes when the "
    "sidecar was killed.",
    "failure_mode_allow: true",
)
def failure_mode_closed(mesh: Mesh) -> Iterator[Hit]:
    for guard in mesh.guards:
        if not guard["failure_mode_allow"].flag():
            said = "with observability_mode" if guard.observes else ""
            yield Hit(guard["failure_mode_allow"], guard.of, said)


@THEME.check(
    "full-duplex-fail-open",
    Severity.ERROR,
    "FULL_DUPLEX_STREAMED does not fail open",
    "Once body was sent, that mode ignores failure_mode_allow: a sidecar killed mid-stream "
    "truncated the answer (370 of 764 bytes), one that hung held it for ever. STREAMED lost no "
    "byte.",
    MODES,
)
def full_duplex_fail_open(mesh: Mesh) -> Iterator[Hit]:
    for guard in mesh.guards:
        for name in ("response_body_mode", "request_body_mode"):
            mode = guard["processing_mode"][name]
            if mode.choice(BODY_MODES) == "FULL_DUPLEX_STREAMED":
                yield Hit(mode, guard.of)


@THEME.check(
    "body-buffered",
    Severity.ERROR,
    "whole bodies are buffered",
    "Nothing streams any more, and a body over the buffer limit (1 MiB by default) is a 500 for "
    "the client, whatever failure_mode_allow says; a request body over it is a 413.",
    MODES,
)
def body_buffered(mesh: Mesh) -> Iterator[Hit]:
    for guard in mesh.guards:
        for name in ("response_body_mode", "request_body_mode"):
            mode = guard["processing_mode"][name]
            kind = mode.choice(BODY_MODES)
            if kind == "BUFFERED":
                yield Hit(mode, guard.of, kind)
            elif kind == "BUFFERED_PARTIAL":
                said = f"{kind}: what exceeds the buffer passes, the beginning does not stream"
                yield Hit(mode, guard.of, said, severity=Severity.WARNING)


@THEME.check(
    "buffered-without-headers",
    Severity.ERROR,
    "a body is judged whole after its headers have gone",
    "With response_header_mode SKIP the headers are sent before the verdict: no marker, no retry.",
    MODES,
)
def buffered_without_headers(mesh: Mesh) -> Iterator[Hit]:
    for guard in mesh.guards:
        if guard.headers == "SKIP" and guard.body.startswith("BUFFERED"):
            yield Hit(guard["processing_mode"]["response_header_mode"], guard.of)


@THEME.check(
    "body-not-sent",
    Severity.ERROR,
    "the filter does not send response bodies",
    "response_body_mode is NONE unless it is set: the sidecar sees headers, and no word of the "
    "answer.",
    MODES,
)
def body_not_sent(mesh: Mesh) -> Iterator[Hit]:
    for guard in mesh.guards:
        if guard.body == "NONE":
            yield Hit(guard["processing_mode"]["response_body_mode"], guard.of)


@THEME.check(
    "response-headers-not-sent",
    Severity.ERROR,
    "the filter does not send response headers",
    "Who answered, in what form and encoding comes with the headers, once; without them the body "
    "is not judged and no answer can be marked.",
    MODES,
)
def response_headers_not_sent(mesh: Mesh) -> Iterator[Hit]:
    for guard in mesh.guards:
        if guard.headers == "SKIP" and not guard.body.startswith("BUFFERED"):
            yield Hit(guard["processing_mode"]["response_header_mode"], guard.of)


@THEME.check(
    "hold-impossible",
    Severity.ERROR,
    "no body comes while the answer to the headers is out",
    "Envoy then waits for that answer before it sends body, so the sidecar either lets the headers "
    "go unseen or waits in vain: a corrupt beginning reaches the client, and nothing is retried.",
    "send_body_without_waiting_for_header_response: true",
)
def hold_impossible(mesh: Mesh) -> Iterator[Hit]:
    settings = mesh.world.settings
    if settings is not None and not settings.hold.enabled:
        return
    name = "send_body_without_waiting_for_header_response"
    for guard in mesh.guards:
        if guard.body == "STREAMED" and not guard.observes and not guard[name].flag():
            policy = "an EnvoyExtensionPolicy cannot hold: it wants shadowMode: true"
            yield Hit(guard[name], guard.of, policy if guard.filter.policy else "")


@THEME.check(
    "mode-override-ignored",
    Severity.WARNING,
    "mode_override has no effect",
    "With send_body_without_waiting_for_header_response Envoy ignores a mode that the sidecar asks "
    "for. The modes must be right in the filter; the sidecar samples by ending its stream.",
    MODES + "# and without allow_mode_override",
)
def mode_override_ignored(mesh: Mesh) -> Iterator[Hit]:
    for guard in mesh.guards:
        ignored = guard["send_body_without_waiting_for_header_response"].flag()
        if ignored and guard["allow_mode_override"].flag():
            yield Hit(guard["allow_mode_override"], guard.of)


@THEME.check(
    "message-timeout-short",
    Severity.ERROR,
    "message_timeout is no more than a pause of a busy machine",
    "The default is 200 ms. When it passes, Envoy goes on without the sidecar: the held headers "
    "are let go, and the answer is unread (counted in ext_proc.message_timeouts and "
    "failure_mode_allowed only).",
    "message_timeout: 1s",
)
def message_timeout_short(mesh: Mesh) -> Iterator[Hit]:
    for guard in mesh.guards:
        at = guard["message_timeout"]
        seconds = at.seconds(DEFAULT_MESSAGE_TIMEOUT)
        if not guard.observes and seconds < 0.5:
            said = f"{seconds:g} s" if at else "unset, hence 200 ms"
            severity = None if seconds <= DEFAULT_MESSAGE_TIMEOUT else Severity.WARNING
            yield Hit(at, guard.of, said, severity=severity)


@THEME.check(
    "message-timeout-long",
    Severity.WARNING,
    "message_timeout lets a stuck sidecar delay every answer",
    "Envoy starts it anew with each chunk, so a sidecar that hangs held a 5 s stream for 6.1 s at "
    "1 s; it is what every answer waits while the sidecar is stuck.",
    "message_timeout: 1s\nmax_message_timeout: 60s",
)
def message_timeout_long(mesh: Mesh) -> Iterator[Hit]:
    for guard in mesh.guards:
        at = guard["message_timeout"]
        if not guard.observes and at.seconds(DEFAULT_MESSAGE_TIMEOUT) > 10:
            yield Hit(at, guard.of, f"{at.seconds(0):g} s")


@THEME.check(
    "max-message-timeout-missing",
    Severity.WARNING,
    "the sidecar cannot ask for more time",
    "An engine that sends its headers before it reads the prompt (llama.cpp) is silent for longer "
    "than message_timeout. Without max_message_timeout Envoy ignores the question for more time "
    "(ext_proc.override_message_timeout_ignored), and the hold ends before the first token.",
    "max_message_timeout: 60s   # and hold.patience: 60 in extproc.yaml",
)
def max_message_timeout_missing(mesh: Mesh) -> Iterator[Hit]:
    for guard in mesh.guards:
        most = guard["max_message_timeout"]
        if not guard.holds or guard.body != "STREAMED":
            continue
        if most.seconds(0) <= guard["message_timeout"].seconds(DEFAULT_MESSAGE_TIMEOUT):
            yield Hit(most, guard.of, "" if most else "unset")


@THEME.check(
    "mutation-rules",
    Severity.ERROR,
    "mutation_rules reject the sidecar's headers",
    "A header that the rules do not allow is dropped and only counted "
    "(ext_proc.rejected_header_mutations): without x-semantic-verdict nothing is ever retried.",
    'mutation_rules: {disallow_all: true, allow_expression: {regex: "x-semantic-.*"}}',
)
def mutation_rules(mesh: Mesh) -> Iterator[Hit]:
    for guard in mesh.guards:
        if guard.observes:
            continue
        refused = [name for name in OWN_HEADERS if not may_set(guard["mutation_rules"], name)]
        if refused:
            severity = None if MARKER in refused else Severity.WARNING
            said = f"{', '.join(refused)} may not be set"
            yield Hit(guard["mutation_rules"], guard.of, said, severity=severity)


def may_set(rules: Node, name: str) -> bool:
    """Whether ``HeaderMutationRules`` let a header be set that is no system header."""
    if rules["disallow_expression"] and matches_regex(rules["disallow_expression"], name):
        return False
    if rules["allow_expression"] and matches_regex(rules["allow_expression"], name):
        return True
    return not rules["disallow_all"].flag()


@THEME.check(
    "mutation-rules-are-errors",
    Severity.WARNING,
    "a rejected header fails the whole answer",
    "With disallow_is_error one header that the rules do not allow ends the exchange with an error "
    "instead of being dropped.",
    "mutation_rules: {disallow_is_error: false}",
)
def mutation_rules_are_errors(mesh: Mesh) -> Iterator[Hit]:
    for guard in mesh.guards:
        at = guard["mutation_rules"]["disallow_is_error"]
        if at.flag():
            yield Hit(at, guard.of)


@THEME.check(
    "receiving-namespaces",
    Severity.WARNING,
    "the verdict does not reach the access log",
    "Envoy drops dynamic metadata of namespaces that are not listed: "
    "%DYNAMIC_METADATA(semantic.extproc:verdict)% logs -.",
    "metadata_options: {receiving_namespaces: {untyped: [semantic.extproc]}}",
)
def receiving_namespaces(mesh: Mesh) -> Iterator[Hit]:
    for guard in mesh.guards:
        if not guard.observes and "semantic.extproc" not in _untyped(guard, "receiving_namespaces"):
            yield Hit(guard["metadata_options"]["receiving_namespaces"], guard.of)


def _untyped(guard: Guard, name: str) -> list[str]:
    return guard["metadata_options"][name]["untyped"].texts()


@THEME.check(
    "observability-mode",
    Severity.INFO,
    "the filter only watches",
    "In observability mode Envoy sends copies and waits for nothing: verdicts bring metrics, "
    "states and health checks, and no answer is marked, held or retried. A safe beginning.",
    "# to retry corrupt beginnings:\nobservability_mode: false\n" + MODES.strip(),
)
def observability_mode(mesh: Mesh) -> Iterator[Hit]:
    for guard in mesh.guards:
        if guard.observes:
            yield Hit(guard["observability_mode"], guard.of)


@THEME.check(
    "http-service",
    Severity.ERROR,
    "ext_proc over plain HTTP sends headers only",
    "The sidecar speaks gRPC; http_service carries no body.",
    "grpc_service: {envoy_grpc: {cluster_name: semantic_extproc}}",
)
def http_service(mesh: Mesh) -> Iterator[Hit]:
    for guard in mesh.guards:
        if guard["http_service"] and not guard["grpc_service"]:
            yield Hit(guard["http_service"], guard.of)


@THEME.check(
    "forward-rules",
    Severity.ERROR,
    "headers that tell the form of an answer are not forwarded",
    "Without :status, content-type and content-encoding the sidecar cannot know how to read the "
    "body.",
    "# no forward_rules, or among allowed_headers: :status, content-type, content-encoding",
)
def forward_rules(mesh: Mesh) -> Iterator[Hit]:
    for guard in mesh.guards:
        rules = guard["forward_rules"]
        allowed = rules.at("allowed_headers", "patterns").items()
        barred = rules.at("disallowed_headers", "patterns").items()
        for name in (":status", "content-type", "content-encoding"):
            kept = not rules["allowed_headers"] or any(matches_string(p, name) for p in allowed)
            if not kept or any(matches_string(pattern, name) for pattern in barred):
                yield Hit(rules, guard.of, f"{name} is left out")


@THEME.check(
    "xds-node-attribute",
    Severity.WARNING,
    "xds.node is sent with every answer",
    "It holds the list of all extensions, tens of kilobytes a response; in the upstream chain it "
    "alone crashed Envoy 1.40.0.",
    "# leave xds.node out of request_attributes and response_attributes",
)
def xds_node_attribute(mesh: Mesh) -> Iterator[Hit]:
    for guard in mesh.guards:
        for name in ("request_attributes", "response_attributes"):
            for entry in guard[name].items():
                if re.fullmatch(r"xds\.node(\..*)?", entry.text()) or entry.text() == "xds":
                    yield Hit(entry, guard.of)
