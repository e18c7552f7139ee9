"""Does the sidecar's word on a unit reach Envoy, soon, and only its word?"""

from __future__ import annotations

from collections.abc import Iterator

from extproc.mesh.audit.checks.balancing import asks_sidecar, guarded_clusters
from extproc.mesh.audit.finding import Hit, Severity, Theme
from extproc.mesh.audit.node import Node
from extproc.mesh.audit.reach import Mesh
from extproc.mesh.audit.world import Cluster

THEME = Theme("Health checks")

CHECKS = """
health_checks:
- timeout: 0.5s
  interval: 0.5s
  no_traffic_interval: 0.5s
  unhealthy_threshold: 1000000
  healthy_threshold: 1
  http_health_check: {path: /unit-health}
"""

ENDPOINT = """
health_check_config:
  # admin.address of extproc.yaml, and the unit's id there
  address: {socket_address: {address: 127.0.0.1, port_value: 18081}}
  hostname: unit-a
"""

HOUR = 3600.0

DISABLED = "disable_active_health_check"


def asking(mesh: Mesh) -> Iterator[tuple[Cluster, Node]]:
    """Every health check that goes to the sidecar, on fronts and on units' own clusters."""
    clusters = {cluster.name: cluster for cluster in guarded_clusters(mesh)}
    for cluster in {**clusters, **mesh.units}.values():
        for check in cluster.health_checks:
            if to_sidecar(cluster, check):
                yield cluster, check


def to_sidecar(cluster: Cluster, check: Node) -> bool:
    """By its path, or by hosts that are asked elsewhere than where they serve."""
    if check.at("http_health_check", "path").text().startswith("/unit-health"):
        return True
    return bool(cluster.endpoints) and all(
        host.listener and host.health_check["address"] for host in cluster.endpoints
    )


def fed_by_xds(mesh: Mesh, cluster: Cluster) -> bool:
    """Whether the sidecar's xDS server says which hosts of the cluster are well."""
    settings = mesh.world.settings
    service = cluster.node.at("eds_cluster_config", "service_name").text() or cluster.name
    return settings is not None and any(
        entry.name in (service, cluster.name) for entry in settings.xds.clusters
    )


@THEME.check(
    "unit-health-missing",
    Severity.ERROR,
    "no health check asks the sidecar about the units",
    "A quarantine then moves no traffic: an ejection expires, and faults that show late or seldom "
    "have no other way to Envoy. (Or let the sidecar's xDS server send the hosts.)",
    CHECKS + ENDPOINT.lstrip("\n"),
)
def unit_health_missing(mesh: Mesh) -> Iterator[Hit]:
    watched = {leg.target.cluster: mesh.world.cluster(leg.target.cluster) for leg in mesh.level}
    for cluster in {**watched, **mesh.front_clusters}.values():
        if cluster is None:
            continue
        for entry in mesh.world.parts(cluster):
            if entry is None or entry.partial or fed_by_xds(mesh, entry):
                continue
            if any(to_sidecar(entry, check) for check in entry.health_checks):
                continue
            eds = bool(entry.node["eds_cluster_config"])
            mild = cluster.name not in mesh.front_clusters or (eds and not mesh.world.settings)
            severity = Severity.WARNING if mild else None
            yield Hit(entry.node["health_checks"], entry.of, severity=severity)


@THEME.check(
    "unit-health-path",
    Severity.ERROR,
    "the health check does not ask for /unit-health",
    "Any other path of the sidecar answers for the sidecar, not for the unit: a quarantined unit "
    "stays healthy.",
    "http_health_check: {path: /unit-health}",
)
def unit_health_path(mesh: Mesh) -> Iterator[Hit]:
    for cluster, check in asking(mesh):
        at = check.at("http_health_check", "path")
        if at.text().partition("?")[0] != "/unit-health":
            yield Hit(at, cluster.of, f"it asks for {at.text() or 'nothing'}")


@THEME.check(
    "unit-health-address",
    Severity.ERROR,
    "the health check asks the unit instead of the sidecar",
    "Without health_check_config.address Envoy asks the host itself, and engines know no "
    "/unit-health: 404, so the unit is out for ever.",
    ENDPOINT,
)
def unit_health_address(mesh: Mesh) -> Iterator[Hit]:
    for cluster in _asked(mesh):
        for host in cluster.endpoints:
            config = host.health_check
            if not config["address"] and not config["port_value"]:
                yield Hit(config["address"], cluster.of, f"host {host.label}")


@THEME.check(
    "unit-health-disabled",
    Severity.ERROR,
    "a unit is left out of the health check",
    "disable_active_health_check makes Envoy ask nothing about that host and take it for healthy: "
    "a unit that the sidecar had quarantined kept its traffic.",
    "health_check_config: {disable_active_health_check: false}",
)
def unit_health_disabled(mesh: Mesh) -> Iterator[Hit]:
    for cluster in _asked(mesh):
        for host in cluster.endpoints:
            at = host.health_check[DISABLED]
            if at.flag():
                yield Hit(at, cluster.of, f"host {host.label}")


def _asked(mesh: Mesh) -> list[Cluster]:
    return list({cluster.name: cluster for cluster, _ in asking(mesh)}.values())


@THEME.check(
    "unit-health-hostname",
    Severity.ERROR,
    "the health check does not say which unit it means",
    "The Host header is the question; without it the sidecar is asked for a unit of the cluster's "
    "name, knows none, and answers healthy for ever.",
    ENDPOINT,
)
def unit_health_hostname(mesh: Mesh) -> Iterator[Hit]:
    for cluster, check in asking(mesh):
        http = check["http_health_check"]
        asked = http["host"].text()
        known = known_units(mesh)
        if "unit=" in http["path"].text():
            continue
        if asked and (not known or asked_unit(asked, known) in known):
            continue
        for host in cluster.endpoints:
            if not host.health_check["hostname"]:
                said = f"host {host.label}"
                if asked:
                    said += f", and {asked} (http_health_check.host) is no unit"
                yield Hit(host.health_check["hostname"], cluster.of, said)


@THEME.check(
    "unit-health-other-unit",
    Severity.ERROR,
    "the health check asks about another unit",
    "Quarantine of one unit takes another out, and the bad one keeps its traffic.",
    ENDPOINT,
)
def unit_health_other_unit(mesh: Mesh) -> Iterator[Hit]:
    known, settings = known_units(mesh), mesh.world.settings
    for cluster, check in asking(mesh):
        for host in cluster.endpoints:
            # An endpoint's own name wins over the one of the check.
            at = host.health_check["hostname"] or check.at("http_health_check", "host")
            asked = asked_unit(at.text(), known)
            behind = mesh.units_behind(host, cluster)
            if not asked or not behind or not behind <= known or asked in behind:
                continue
            said = f"host {host.label} is {', '.join(sorted(behind))}, asked for is {asked}"
            if asked in known:
                yield Hit(at, cluster.of, said)
            elif settings is None:  # with them another check tells
                said += ", which no cluster is: what nobody knows is healthy"
                yield Hit(at, cluster.of, said, severity=Severity.WARNING)


def known_units(mesh: Mesh) -> set[str]:
    """The ids of units that Envoy's configuration or the sidecar's names."""
    settings = mesh.world.settings
    told = {unit.id for unit in settings.units} if settings is not None else set()
    return told | {unit for way in mesh.ways if (unit := way.unit)}


def asked_unit(hostname: str, known: set[str]) -> str:
    """The unit of "unit", "unit#class" or "unit@host"; ids may hold any of these signs."""
    for mark in ("", "#", "@"):
        name = hostname.rpartition(mark)[0] if mark else hostname
        if name in known:
            return name
    return hostname.partition("#")[0].partition("@")[0]


@THEME.check(
    "no-traffic-interval",
    Severity.ERROR,
    "an idle cluster is hardly checked",
    "no_traffic_interval is 60 s by default and holds until the cluster has had traffic and one "
    "such interval has passed: a quarantine showed neither in 8 s, nor in 8 s more after traffic "
    "began.",
    "no_traffic_interval: 0.5s   # as interval",
)
def no_traffic_interval(mesh: Mesh) -> Iterator[Hit]:
    for cluster, check in asking(mesh):
        at = check["no_traffic_interval"]
        seconds = at.seconds(60)
        if seconds > 5:
            said = f"{seconds:g} s" if at else "unset, hence 60 s"
            severity = None if seconds > 15 else Severity.WARNING
            yield Hit(at, cluster.of, said, severity=severity)


@THEME.check(
    "unhealthy-threshold",
    Severity.ERROR,
    "a sidecar that is down takes the units down",
    "A 503 counts at once whatever stands here; failed connections are counted against "
    "unhealthy_threshold. At 1000000 a dead sidecar left all as it was (21 failures, all healthy).",
    "unhealthy_threshold: 1000000",
)
def unhealthy_threshold(mesh: Mesh) -> Iterator[Hit]:
    fronts = {cluster.name for cluster in guarded_clusters(mesh)}
    for cluster, check in asking(mesh):
        at = check["unhealthy_threshold"]
        times = at.number(0)
        survives = times * check["interval"].seconds(1)
        if survives < HOUR:
            said = f"after {times:g} failures, {survives:g} s, without the sidecar"
            severity = None if cluster.name in fronts else Severity.WARNING
            yield Hit(at, cluster.of, said, severity=severity)


@THEME.check(
    "healthy-threshold",
    Severity.WARNING,
    "a unit comes back slowly",
    "healthy_threshold answers are awaited before a unit that is well again, or Envoy's first "
    "after a restart of the cluster, takes traffic.",
    "healthy_threshold: 1",
)
def healthy_threshold(mesh: Mesh) -> Iterator[Hit]:
    for cluster, check in asking(mesh):
        at = check["healthy_threshold"]
        if at.number(1) * check["interval"].seconds(1) > 10 and at.number(1) > 1:
            yield Hit(at, cluster.of, f"{at.number(1):g} times")


@THEME.check(
    "health-check-slow",
    Severity.WARNING,
    "a quarantine reaches Envoy late",
    "It is seen at the next check: 0.36 s at an interval of 1 s, 0.07 s at 100 ms. The answer "
    "costs the sidecar next to nothing.",
    "interval: 0.5s",
)
def health_check_slow(mesh: Mesh) -> Iterator[Hit]:
    for cluster, check in asking(mesh):
        for name in ("interval", "unhealthy_interval", "healthy_edge_interval"):
            at = check[name]
            if at.seconds(0) > 5:
                yield Hit(at, cluster.of, f"{at.seconds(0):g} s")


@THEME.check(
    "unit-health-503-ignored",
    Severity.ERROR,
    "the health check does not take 503 for an answer",
    "503 is how the sidecar says quarantine. Among expected_statuses it means healthy; among "
    "retriable_statuses it is counted against unhealthy_threshold, which a good configuration has "
    "at a million.",
    "# without 503 in expected_statuses and retriable_statuses",
)
def unit_health_503_ignored(mesh: Mesh) -> Iterator[Hit]:
    for cluster, check in asking(mesh):
        for name in ("expected_statuses", "retriable_statuses"):
            for entry in check["http_health_check"][name].items():
                if entry["start"].number(0) <= 503 < entry["end"].number(0):
                    yield Hit(entry, cluster.of, name)


@THEME.check(
    "unit-health-protocol",
    Severity.ERROR,
    "the health check speaks HTTP/2 or gRPC",
    "The sidecar's admin server speaks HTTP/1.1: every check fails to connect.",
    "http_health_check: {path: /unit-health}   # without codec_client_type",
)
def unit_health_protocol(mesh: Mesh) -> Iterator[Hit]:
    for cluster, check in asking(mesh):
        at = check.at("http_health_check", "codec_client_type")
        if at.choice(("HTTP1", "HTTP2", "HTTP3")) != "HTTP1":
            yield Hit(at, cluster.of)


@THEME.check(
    "unit-health-over-tls",
    Severity.WARNING,
    "the health check would speak TLS to the sidecar",
    "A check uses the transport socket of its cluster; the sidecar's admin server speaks plain "
    "HTTP. transport_socket_match_criteria of the check chooses another.",
    "transport_socket_match_criteria: {plain: true}   # and a transport_socket_matches entry for "
    "it",
)
def unit_health_over_tls(mesh: Mesh) -> Iterator[Hit]:
    for cluster, check in asking(mesh):
        kind = cluster.node["transport_socket"]["typed_config"].type()
        if kind.endswith("UpstreamTlsContext") and not check["transport_socket_match_criteria"]:
            yield Hit(check["transport_socket_match_criteria"], cluster.of)


def covers(mesh: Mesh, cluster: Cluster) -> bool:
    """Whether the sidecar's word on the units of a cluster reaches Envoy."""
    return all(
        part is not None
        and (fed_by_xds(mesh, part) or (asks_sidecar(part) and not _left_out(part)))
        for part in mesh.world.parts(cluster)
    )


def _left_out(cluster: Cluster) -> bool:
    return any(host.health_check[DISABLED].flag() for host in cluster.endpoints)
