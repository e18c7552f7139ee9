"""What the counters of a running Envoy say. Only with an admin address."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from extproc.mesh.audit.checks.retrying import POLICY
from extproc.mesh.audit.checks.sidecar import WIDE, sidecar_clusters
from extproc.mesh.audit.finding import Function, Hit, Severity, Theme
from extproc.mesh.audit.guard import Guard
from extproc.mesh.audit.node import Node
from extproc.mesh.audit.reach import Mesh
from extproc.mesh.audit.world import Cluster

THEME = Theme("A running Envoy")


def counter(mesh: Mesh, name: str) -> float | None:
    """A counter or gauge; None where Envoy does not show it."""
    live = mesh.world.live
    return None if live is None else live.stats.get(name)


def processing(mesh: Mesh, guard: Guard, name: str) -> tuple[Node, float | None]:
    """A counter of one filter: downstream it stands under its manager's stat_prefix."""
    live = mesh.world.live
    own = guard.filter.config["stat_prefix"].text()
    tail = f"ext_proc.{own}.{name}" if own else f"ext_proc.{name}"
    if guard.upstream:
        of = re.escape(guard.cluster.name) if guard.cluster and guard.cluster.name else ".*"
        pattern = re.compile(rf"cluster\.{of}\..*{re.escape(tail)}")
        found = [
            value for key, value in (live.stats if live else {}).items() if pattern.fullmatch(key)
        ]
        return Node(None, f"stats: cluster.{of}.{tail}"), sum(found) if found else None
    prefix = guard.manager.stat_prefix if guard.manager else ""
    key = f"http.{prefix}.{tail}"
    return Node(None, f"stats: {key}"), counter(mesh, key)


def stat(mesh: Mesh, cluster: Cluster, name: str) -> tuple[Node, float | None]:
    """A counter or gauge of one cluster."""
    key = f"cluster.{cluster.name}.{name}"
    return Node(None, f"stats: {key}"), counter(mesh, key)


def read(mesh: Mesh) -> Iterator[tuple[Node, str, float | None, float | None]]:
    """Of every filter downstream: where its counter of streams stands, what it belongs to, how many
    streams it has started, and how many requests have passed."""
    for guard in mesh.guards:
        if not guard.upstream and guard.manager is not None:
            at, started = processing(mesh, guard, "streams_started")
            passed = counter(mesh, f"http.{guard.manager.stat_prefix}.downstream_rq_total")
            yield at, guard.of, started, passed


# Most checks ask only whether a counter has counted.


def of_filters(name: str) -> Function:
    """A check of a counter that each filter has."""

    def check(mesh: Mesh) -> Iterator[Hit]:
        for guard in mesh.guards:
            at, value = processing(mesh, guard, name)
            if value:
                yield Hit(at, guard.of, f"{value:g}")

    return check


def of_fronts(*names: str) -> Function:
    """A check of counters that each cluster of the front has."""
    return _of_clusters(lambda mesh: mesh.front_clusters.values(), names)


def of_sidecars(*names: str) -> Function:
    """A check of counters that each of the sidecar's clusters has."""
    return _of_clusters(lambda mesh: (cluster for cluster, _ in sidecar_clusters(mesh)), names)


def _of_clusters(clusters: Callable[[Mesh], Iterable[Cluster]], names: tuple[str, ...]) -> Function:
    def check(mesh: Mesh) -> Iterator[Hit]:
        for cluster in clusters(mesh):
            for name in names:
                at, value = stat(mesh, cluster, name)
                if value:
                    yield Hit(at, cluster.of, f"{value:g}")

    return check


@THEME.check(
    "no-answer-read",
    Severity.ERROR,
    "requests passed, and the filter started no stream",
    "ext_proc.streams_started is 0 while requests were counted: the filter is configured and does "
    "not run on what passes.",
    "# look for disabled overrides, another listener or port, and the routes clients really use",
)
def no_answer_read(mesh: Mesh) -> Iterator[Hit]:
    for at, of, started, passed in read(mesh):
        if started == 0 and passed:
            yield Hit(at, of, f"{passed:g} requests, 0 streams")


@THEME.check(
    "part-not-read",
    Severity.WARNING,
    "fewer streams than requests",
    "Some routes of this listener, or some requests, pass without the filter.",
    "# look for disabled overrides and matchers on the routes of this listener",
)
def part_not_read(mesh: Mesh) -> Iterator[Hit]:
    for at, of, started, passed in read(mesh):
        if started and passed and started < 0.9 * passed:
            yield Hit(at, of, f"{passed:g} requests, {started:g} streams")


@THEME.check(
    "no-traffic-yet",
    Severity.INFO,
    "the filter has seen no traffic",
    "Nothing has passed its listener since Envoy started, so whether it works cannot be told.",
    "# send a request through the gateway, and audit again",
)
def no_traffic_yet(mesh: Mesh) -> Iterator[Hit]:
    for at, of, started, passed in read(mesh):
        if not started and passed == 0:
            yield Hit(at, of)


THEME.check(
    "answers-passed-unread",
    Severity.WARNING,
    "answers passed without the sidecar",
    "ext_proc.failure_mode_allowed counts them: the sidecar was down, late, or its cluster's "
    "circuit breaker was full.",
    "# alert on it; then see sidecar-circuit-breaker, message-timeout-short and the sidecar's log",
)(of_filters("failure_mode_allowed"))

THEME.check(
    "message-timeouts",
    Severity.WARNING,
    "the sidecar was late",
    "Each is an answer that Envoy stopped asking about: message_timeout is too short, hold.gap too "
    "near it, or the sidecar short of CPU.",
    "message_timeout: 1s",
)(of_filters("message_timeouts"))

THEME.check(
    "headers-rejected",
    Severity.ERROR,
    "Envoy rejected headers of the sidecar's",
    "mutation_rules do not allow what it set: markers or annotations are lost.",
    'mutation_rules: {disallow_all: true, allow_expression: {regex: "x-semantic-.*"}}',
)(of_filters("rejected_header_mutations"))

THEME.check(
    "longer-timeout-refused",
    Severity.WARNING,
    "Envoy refused to wait longer",
    "The sidecar asked for more time than max_message_timeout allows.",
    "max_message_timeout: 60s",
)(of_filters("override_message_timeout_ignored"))

THEME.check(
    "streams-failed",
    Severity.WARNING,
    "streams to the sidecar failed",
    "Their answers passed unread, or, without failure_mode_allow, did not pass.",
    "# see the sidecar's log and the health of its cluster",
)(of_filters("streams_failed"))

THEME.check(
    "retries-refused",
    Severity.ERROR,
    "retries did not take place",
    "Each is a corrupt or failed answer that the client got.",
    "# upstream_rq_retry_overflow: max_retries of the circuit breaker; retry_or_shadow_abandoned:\n"
    "# request_body_buffer_limit",
)(of_fronts("upstream_rq_retry_overflow", "retry_or_shadow_abandoned"))

THEME.check(
    "retries-used-up",
    Severity.WARNING,
    "every attempt at some requests failed",
    "upstream_rq_retry_limit_exceeded counts requests whose last attempt was still corrupt or an "
    "error: what the client got.",
    POLICY,
)(of_fronts("upstream_rq_retry_limit_exceeded"))


@THEME.check(
    "panic-happened",
    Severity.WARNING,
    "the front served in panic",
    "lb_healthy_panic counts requests that were sent whatever the health of the hosts.",
    "common_lb_config: {healthy_panic_threshold: {value: 0}}",
)
def panic_happened(mesh: Mesh) -> Iterator[Hit]:
    for cluster in mesh.front_clusters.values():
        at, value = stat(mesh, cluster, "lb_healthy_panic")
        panic = cluster.node.at("common_lb_config", "healthy_panic_threshold")
        # With a threshold of 0 it counts requests that found no host, which is as it should be.
        if value and panic.number(50) > 0:
            yield Hit(at, cluster.of, f"{value:g}")


THEME.check(
    "sidecar-overflow",
    Severity.ERROR,
    "the circuit breaker of the sidecar's cluster was hit",
    "Streams over it are refused, and their answers passed unread.",
    WIDE,
)(of_sidecars("upstream_rq_pending_overflow", "upstream_cx_overflow"))


@THEME.check(
    "sidecar-unreachable",
    Severity.ERROR,
    "Envoy cannot reach the sidecar",
    "Connections fail, and none is open: answers pass unread.",
    "# is it running, and is its address that of the cluster?",
)
def sidecar_unreachable(mesh: Mesh) -> Iterator[Hit]:
    for cluster, _ in sidecar_clusters(mesh):
        at, failed = stat(mesh, cluster, "upstream_cx_connect_fail")
        _, active = stat(mesh, cluster, "upstream_cx_active")
        if failed and active == 0:
            yield Hit(at, cluster.of, f"{failed:g} connections failed, none is open")


@THEME.check(
    "health-check-unanswered",
    Severity.ERROR,
    "no health check has ever been answered",
    "The sidecar's word does not reach this cluster: hosts keep the state they began with.",
    "# is health_check_config.address that of admin.address?",
)
def health_check_unanswered(mesh: Mesh) -> Iterator[Hit]:
    for cluster in mesh.front_clusters.values():
        _, asked = stat(mesh, cluster, "health_check.attempt")
        _, passed = stat(mesh, cluster, "health_check.success")
        at, failed = stat(mesh, cluster, "health_check.network_failure")
        if asked and failed and passed == 0:
            yield Hit(at, cluster.of, f"{failed:g} of {asked:g}")


THEME.check(
    "ejections-overflowed",
    Severity.WARNING,
    "Envoy wanted to eject, and was not allowed to",
    "ejections_overflow counts ejections that max_ejection_percent forbade.",
    "outlier_detection: {max_ejection_percent: 50}",
)(of_fronts("outlier_detection.ejections_overflow"))
