"""Does the front leave a unit that is out, at once and entirely?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from extproc.mesh.audit.checks.sidecar import DEFAULT_LIMIT, limit, sidecar_clusters
from extproc.mesh.audit.finding import Hit, Severity, Theme
from extproc.mesh.audit.reach import Mesh
from extproc.mesh.audit.world import Cluster

THEME = Theme("Load balancing")

PANIC_KEY = "upstream.healthy_panic_threshold"
"""Envoy's runtime key, which wins over every cluster's own setting."""


def guarded_clusters(mesh: Mesh) -> Iterator[Cluster]:
    """The clusters whose hosts are units, an aggregate's members in its place; and clusters of
    hosts, watched by a filter in the same manager, whose health the sidecar tells."""
    found: dict[str, Cluster] = {}
    for cluster in mesh.front_clusters.values():
        for entry in mesh.world.parts(cluster):
            if entry is not None:
                found.setdefault(entry.name, entry)
    for leg in mesh.level:
        cluster_ = mesh.world.cluster(leg.target.cluster)
        if cluster_ is not None and asks_sidecar(cluster_):
            found.setdefault(cluster_.name, cluster_)
    sidecars = {cluster.name for cluster, _ in sidecar_clusters(mesh)}
    return (cluster for name, cluster in found.items() if name not in sidecars)


def asks_sidecar(cluster: Cluster) -> bool:
    """Whether a health check of the cluster goes to the sidecar."""
    return any(
        check.at("http_health_check", "path").text().startswith("/unit-health")
        for check in cluster.health_checks
    )


@THEME.check(
    "update-merge-window",
    Severity.ERROR,
    "health changes are merged for up to a second",
    "update_merge_window is 1 s by default: a second ejection within it shows in /clusters, and "
    "workers keep sending to the host for up to 1 s.",
    "common_lb_config: {update_merge_window: 0s}",
)
def update_merge_window(mesh: Mesh) -> Iterator[Hit]:
    for cluster in guarded_clusters(mesh):
        at = cluster.node.at("common_lb_config", "update_merge_window")
        seconds = at.seconds(1.0)
        if seconds > 0:
            said = f"{seconds:g} s" if at else "unset, hence 1 s"
            severity = None if seconds >= 0.5 else Severity.WARNING
            yield Hit(at, cluster.of, said, severity=severity)


@THEME.check(
    "panic-threshold",
    Severity.ERROR,
    "the panic threshold sends traffic to units that are out",
    "Below healthy_panic_threshold (50 % by default) Envoy serves from all hosts alike: all of "
    "them when every unit is out, and with 2 of 3 hosts of one priority quarantined the bad ones "
    "got traffic again.",
    "common_lb_config: {healthy_panic_threshold: {value: 0}}",
)
def panic_threshold(mesh: Mesh) -> Iterator[Hit]:
    override = mesh.world.runtime_number(PANIC_KEY)
    for cluster in guarded_clusters(mesh):
        at = cluster.node.at("common_lb_config", "healthy_panic_threshold")
        value = at.number(50) if override is None else override
        if value > 0:
            said = f"{value:g} %" if at else f"unset, hence {value:g} %"
            if override is not None:
                said = f"{value:g} % by the runtime key {PANIC_KEY}"
            yield Hit(at, cluster.of, said)


@THEME.check(
    "overprovisioning",
    Severity.WARNING,
    "one unit out of a priority moves more or less than its share",
    "With the default overprovisioning_factor of 140, one of two hosts of priority 0 ejected sent "
    "6 of 13 requests to priority 1; a factor below 100 spills while all is well.",
    "load_assignment: {policy: {overprovisioning_factor: 1000}}   # spill only when none is left\n"
    "# or one unit a priority",
)
def overprovisioning(mesh: Mesh) -> Iterator[Hit]:
    for cluster in guarded_clusters(mesh):
        sizes = Counter(host.priority for host in cluster.endpoints)
        at = cluster.policy["overprovisioning_factor"]
        factor = at.number(140)
        if len(sizes) < 2:
            continue
        if factor < 100:
            yield Hit(at, cluster.of, f"it is {factor:g}")
        elif any(size > 1 and 100 * size > factor for size in list(sizes.values())[:-1]):
            yield Hit(at, cluster.of, f"{max(sizes.values())} hosts in a priority, {factor:g} %")


@THEME.check(
    "units-share-a-priority",
    Severity.WARNING,
    "several units in one priority",
    "Then a quarantined unit's traffic goes to its priority's others by load, verified or not, "
    "and a retry with previous_priorities skips them all. A priority for each unit keeps the "
    "order of fallback.",
    "endpoints:\n- {priority: 0, lb_endpoints: [...]}   # unit a\n"
    "- {priority: 1, lb_endpoints: [...]}   # unit b, its verified fallback",
)
def units_share_a_priority(mesh: Mesh) -> Iterator[Hit]:
    for cluster in mesh.front_clusters.values():
        units: dict[int, set[str]] = {}
        for host in cluster.endpoints:
            units.setdefault(host.priority, set()).update(mesh.units_behind(host, cluster))
        for priority, names in units.items():
            if len(names) > 1:
                said = f"priority {priority} holds {', '.join(sorted(names))}"
                yield Hit(cluster.node["load_assignment"], cluster.of, said)


@THEME.check(
    "front-circuit-breaker",
    Severity.WARNING,
    "the cluster takes few requests at a time",
    "Streams of tokens are long, so more of them are open than of ordinary requests. Over "
    "max_requests, max_connections or max_pending_requests (1024 by default) Envoy answers 503, "
    "and a 503 of the unit's tier counts against the unit.",
    "circuit_breakers:\n  thresholds:\n  - max_connections: 100000\n"
    "    max_pending_requests: 100000\n    max_requests: 100000\n    max_retries: 1000",
)
def front_circuit_breaker(mesh: Mesh) -> Iterator[Hit]:
    inspected = {way.cluster.name: way.cluster for way in mesh.inspected if not way.mirrored}
    for cluster in {**mesh.front_clusters, **inspected}.values():
        if cluster.partial:
            continue
        row = cluster.thresholds()
        for name in ("max_requests", "max_connections", "max_pending_requests"):
            most = limit(mesh.world, cluster, name, DEFAULT_LIMIT, "DEFAULT")
            if most <= DEFAULT_LIMIT:
                yield Hit(row[name], cluster.of, f"{name} is {most:g}")
                break


@THEME.check(
    "streams-cut-by-health",
    Severity.WARNING,
    "a host that becomes unhealthy loses its open streams",
    "close_connections_on_host_health_failure ends answers in flight; without it they complete (61 "
    "of 61 chunks).",
    "close_connections_on_host_health_failure: false",
)
def streams_cut_by_health(mesh: Mesh) -> Iterator[Hit]:
    clusters = {cluster.name: cluster for cluster in guarded_clusters(mesh)}
    for cluster in {**clusters, **mesh.units}.values():
        at = cluster.node["close_connections_on_host_health_failure"]
        if at.flag():
            yield Hit(at, cluster.of)


@THEME.check(
    "ignore-health-on-host-removal",
    Severity.WARNING,
    "a host that was taken away stays while the sidecar calls it healthy",
    "Envoy keeps a removed host with active health checks as long as they pass, and the sidecar "
    "answers for hosts it has not seen go: after a roll-out the old release keeps traffic.",
    "ignore_health_on_host_removal: true",
)
def ignore_health_on_host_removal(mesh: Mesh) -> Iterator[Hit]:
    clusters = {cluster.name: cluster for cluster in guarded_clusters(mesh)}
    for cluster in {**mesh.units, **clusters}.values():
        at = cluster.node["ignore_health_on_host_removal"]
        if at.flag() or not asks_sidecar(cluster):
            continue
        if cluster.discovered:
            yield Hit(at, cluster.of)
        elif cluster.name in mesh.units:
            said = "its hosts are static today"
            yield Hit(at, cluster.of, said, severity=Severity.INFO)


@THEME.check(
    "boot-without-sidecar",
    Severity.INFO,
    "until the sidecar has answered once, every unit is out",
    "Hosts with active health checks begin as failed. When the sidecar is down as Envoy starts, "
    "the front answers 503 (no healthy upstream) with a panic threshold of 0, and serves from all "
    "hosts with 50. Start the sidecar first.",
    "# Kubernetes: the sidecar as a native sidecar container (initContainers, restartPolicy: "
    "Always)",
)
def boot_without_sidecar(mesh: Mesh) -> Iterator[Hit]:
    for cluster in guarded_clusters(mesh):
        panic = cluster.node.at("common_lb_config", "healthy_panic_threshold")
        if asks_sidecar(cluster) and panic.number(50) == 0:
            yield Hit(cluster.node["health_checks"], cluster.of)
