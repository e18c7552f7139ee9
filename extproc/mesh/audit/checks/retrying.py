"""When an answer is marked, is it retried, and on something else?"""

from __future__ import annotations

from collections.abc import Iterator

from extproc.mesh.audit.checks.sidecar import limit
from extproc.mesh.audit.finding import Hit, Severity, Theme
from extproc.mesh.audit.matchers import HEALTHY, MARKED, matches_header
from extproc.mesh.audit.node import Node
from extproc.mesh.audit.reach import Front, Mesh
from extproc.mesh.audit.retry import Kind, extension, retry_reach
from extproc.mesh.audit.world import MIB

THEME = Theme("Retry")

POLICY = """
retry_policy:
  retry_on: retriable-headers,connect-failure,refused-stream,5xx
  num_retries: 1
  retriable_headers:
  - {name: x-semantic-verdict, string_match: {exact: corrupt}}
  retry_priority:
    name: envoy.retry_priorities.previous_priorities
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.retry.priority.previous_priorities.v3.PreviousPrioritiesConfig
      update_frequency: 1
"""  # noqa: E501


def holding(mesh: Mesh) -> Iterator[Front]:
    """The fronts whose answers may be marked in time."""
    return (front for front in mesh.fronts if front.holds)


def of(front: Front) -> str:
    """What a retry setting belongs to."""
    return f"{front.route.of}, cluster {front.leg.target.cluster}"


@THEME.check(
    "retry-missing",
    Severity.ERROR,
    "the route does not retry",
    "A marked answer goes to the client as it is.",
    POLICY,
)
def retry_missing(mesh: Mesh) -> Iterator[Hit]:
    for front in holding(mesh):
        if not front.route.retry and not front.route.action["retry_policy_typed_config"]:
            yield Hit(front.route.retry, of(front))


@THEME.check(
    "retriable-headers",
    Severity.ERROR,
    "the retry policy does not retry marked answers",
    "It takes both: retriable-headers in retry_on, and a retriable_headers matcher for "
    "x-semantic-verdict: corrupt. Else the marked 200 goes to the client.",
    POLICY,
)
def retriable_headers(mesh: Mesh) -> Iterator[Hit]:
    for front in holding(mesh):
        retry = front.route.retry
        if not retry:
            continue
        if "retriable-headers" not in words(retry["retry_on"]):
            yield Hit(retry["retry_on"], of(front), "retry_on lacks retriable-headers")
        if not any(matches_header(entry, MARKED) for entry in retry["retriable_headers"].items()):
            said = "nothing matches x-semantic-verdict: corrupt"
            yield Hit(retry["retriable_headers"], of(front), said)


def words(node: Node) -> list[str]:
    """A comma-separated list."""
    return [word.strip() for word in node.text().split(",")]


@THEME.check(
    "retries-healthy-answers",
    Severity.ERROR,
    "the retry policy retries healthy answers",
    "A retriable_headers matcher takes an answer that bears no marker: every request runs twice.",
    POLICY,
)
def retries_healthy_answers(mesh: Mesh) -> Iterator[Hit]:
    for front in holding(mesh):
        retry = front.route.retry
        if "retriable-headers" in words(retry["retry_on"]):
            for entry in retry["retriable_headers"].items():
                if matches_header(entry, HEALTHY):
                    yield Hit(entry, of(front))


@THEME.check(
    "retriable-request-headers",
    Severity.INFO,
    "only some requests are retried",
    "retriable_request_headers limits retries to requests with such headers; the others get the "
    "corrupt answer.",
    "# without retriable_request_headers",
)
def retriable_request_headers(mesh: Mesh) -> Iterator[Hit]:
    for front in holding(mesh):
        at = front.route.retry["retriable_request_headers"]
        if at.items():
            yield Hit(at, of(front))


@THEME.check(
    "num-retries",
    Severity.ERROR,
    "num_retries allows no retry",
    "A marked answer goes to the client as it is.",
    "num_retries: 1",
)
def num_retries(mesh: Mesh) -> Iterator[Hit]:
    for front in holding(mesh):
        at = front.route.retry["num_retries"]
        if at.number(1) < 1:
            yield Hit(at, of(front))


@THEME.check(
    "num-retries-many",
    Severity.WARNING,
    "more retries than there are other units",
    "When every unit was tried, previous_priorities starts over: a prompt that makes all units "
    "loop costs a generation for each retry, and the client waits for all of them.",
    "num_retries: 1",
)
def num_retries_many(mesh: Mesh) -> Iterator[Hit]:
    for front in holding(mesh):
        at = front.route.retry["num_retries"]
        units = {way.unit or way.cluster.name for way in front.ways}
        if front.leg.target.weighted:
            continue
        if at.number(1) > max(1, len(units) - 1) and front.cluster is not None:
            yield Hit(at, of(front), f"{at.number(1):g} retries, {len(units)} units")


@THEME.check(
    "retry-back-off",
    Severity.WARNING,
    "the retry is put off",
    "Before a retry Envoy waits for a random time below base_interval (25 ms by default). Another "
    "unit takes it at once: the wait only delays the client's first token.",
    "# no retry_back_off",
)
def retry_back_off(mesh: Mesh) -> Iterator[Hit]:
    for front in holding(mesh):
        at = front.route.retry.at("retry_back_off", "base_interval")
        if at.seconds(0) >= 1:
            yield Hit(at, of(front), f"{at.seconds(0):g} s")


@THEME.check(
    "retry-same-configuration",
    Severity.ERROR,
    "a retry may reach the same configuration again",
    "Another host with the same engine, weights and kernels gives the same garbage (measured: by "
    "default the retry stayed in its priority or cluster, 103 of 103).",
    POLICY,
)
def retry_same_configuration(mesh: Mesh) -> Iterator[Hit]:
    for front in holding(mesh):
        reach = retry_reach(front, mesh)
        if front.route.retry and reach.kind is Kind.SAME and not reach.has_own_check:
            yield Hit(reach.at, of(front), reach.why)


@THEME.check(
    "retry-priority-missing",
    Severity.ERROR,
    "nothing sends the retry to another priority",
    "Without previous_priorities Envoy retries in the same priority: on the same configuration "
    "(measured: the garbage of a second host was returned).",
    POLICY,
)
def retry_priority_missing(mesh: Mesh) -> Iterator[Hit]:
    for front in holding(mesh):
        reach = retry_reach(front, mesh)
        missing = reach.kind is Kind.SAME and reach.check == "retry-priority-missing"
        if front.route.retry and missing:
            yield Hit(reach.at, of(front), reach.why)


@THEME.check(
    "retry-priority-update-frequency",
    Severity.ERROR,
    "previous_priorities takes effect too late",
    "update_frequency says after how many attempts the tried priorities are left out; with more "
    "than 1 the first retry goes where the first attempt went.",
    "update_frequency: 1",
)
def retry_priority_update_frequency(mesh: Mesh) -> Iterator[Hit]:
    for front in holding(mesh):
        chosen = front.route.retry["retry_priority"]
        if extension(chosen) != "previous_priorities":
            continue
        at = chosen["typed_config"].any()["update_frequency"]
        if at.number(2) != 1:
            yield Hit(at, of(front), f"it is {at.number(2):g}" if at else "unset")


@THEME.check(
    "weighted-without-refresh",
    Severity.ERROR,
    "weighted clusters without refresh_cluster_on_retry",
    "The cluster is chosen once: every retry of a corrupt answer stayed in it (103 of 103). With "
    "refresh_cluster_on_retry all 97 of 97 went to the other.",
    "retry_policy: {refresh_cluster_on_retry: true}",
)
def weighted_without_refresh(mesh: Mesh) -> Iterator[Hit]:
    for front in holding(mesh):
        at = front.route.retry["refresh_cluster_on_retry"]
        several = front.leg.target.weighted and len(front.route.targets) > 1
        if several and front.route.retry and not at.flag():
            yield Hit(at, front.route.of)


@THEME.check(
    "weighted-share-unavailable",
    Severity.WARNING,
    "a weighted cluster that is out keeps its share",
    "With its unit ejected or quarantined the cluster's share of requests gets 503: weights do not "
    "look at health. Priorities of one cluster (or an aggregate) do.",
    "# one cluster with the units as priorities, or RTDS on the weights (xds.runtime in "
    "extproc.yaml)",
)
def weighted_share_unavailable(mesh: Mesh) -> Iterator[Hit]:
    for front in mesh.fronts:
        if front.leg.target.weighted and len(front.route.targets) > 1:
            yield Hit(front.route.action["weighted_clusters"], front.route.of)


@THEME.check(
    "marker-too-late",
    Severity.ERROR,
    "the filter stands in the chain of the retrying route itself",
    "The router decides on a retry before the filters of its own chain see the answer: a marker "
    "set there comes too late, and outlier detection does not count it either (12 of 12 marked, "
    "hosts healthy).",
    "# an internal listener for each unit with the filter in it, and the retrying route in front;\n"
    "# or, to watch only:\nobservability_mode: true",
)
def marker_too_late(mesh: Mesh) -> Iterator[Hit]:
    above = {id(front.leg.manager) for front in mesh.fronts}
    for leg in mesh.level:
        if id(leg.manager) in above:
            continue
        for way in mesh.inspected:
            if way.legs[0] is not leg and way.legs[0].route is not leg.route:
                continue
            for at, guard in way.guards:
                if at == 0 and not guard.upstream and guard.holds:
                    yield Hit(guard.filter.node, guard.of)


@THEME.check(
    "max-retries",
    Severity.ERROR,
    "the circuit breaker allows few retries at a time",
    "When a unit turns bad every request is retried. max_retries is 3 by default: of a burst of "
    "60, 57 clients got the garbage (upstream_rq_retry_overflow); at 1000 none did.",
    "circuit_breakers:\n  thresholds:\n  - {max_requests: 100000, max_retries: 1000}",
)
def max_retries(mesh: Mesh) -> Iterator[Hit]:
    for front in holding(mesh):
        cluster = front.cluster
        if cluster is None:
            continue
        priority = front.route.action["priority"].choice(("DEFAULT", "HIGH"))
        row = cluster.thresholds(priority)
        budget = row["retry_budget"]
        if budget:
            share = budget["budget_percent"].number(20)
            least = budget["min_retry_concurrency"].number(3)
            if share < 100 and least < 100:
                said = f"retry_budget: {share:g} % of the active requests, at least {least:g}"
                yield Hit(budget, cluster.of, said)
            continue
        most = limit(mesh.world, cluster, "max_retries", 3, priority)
        if most < 100:
            said = f"max_retries is {most:g}" if row["max_retries"] else "unset, hence 3"
            severity = None if most <= 10 else Severity.WARNING
            yield Hit(row["max_retries"], cluster.of, said, severity=severity)


@THEME.check(
    "request-buffer-limit",
    Severity.ERROR,
    "long prompts lose their retry",
    "A retry needs the request again. Above the buffer (1 MiB by default) Envoy gives the retry up "
    "(retry_or_shadow_abandoned), and the client gets the corrupt answer: long prompts and images "
    "are larger.",
    "request_body_buffer_limit: 16777216   # of the virtual host",
)
def request_buffer_limit(mesh: Mesh) -> Iterator[Hit]:
    for front in holding(mesh):
        at, most = request_buffer(front)
        settings = mesh.world.settings
        longest = (
            max((entry.up_to_bytes for entry in settings.context_classes), default=0)
            if settings
            else 0
        )
        if most <= max(MIB, longest):
            yield Hit(at, of(front), f"{most:g} bytes are kept")
        elif most < 4 * MIB:
            yield Hit(at, of(front), f"{most:g} bytes are kept", severity=Severity.WARNING)


def request_buffer(front: Front) -> tuple[Node, float]:
    """Where the limit of a request kept for a retry stands, and what it is."""
    listener = front.leg.manager.listener_node["per_connection_buffer_limit_bytes"]
    connection = listener.number(MIB)
    for level in front.route.levels()[:2]:
        if level["request_body_buffer_limit"]:
            return level["request_body_buffer_limit"], level["request_body_buffer_limit"].number(0)
    for level in front.route.levels()[:2]:
        old = level["per_request_buffer_limit_bytes"]
        if old:  # it can only lower the connection's
            return old, min(old.number(0), connection)
    host = front.route.host if front.route.host else front.route.node
    return host["request_body_buffer_limit"], connection
