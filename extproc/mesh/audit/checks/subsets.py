"""Are Istio's subsets the units that they stand for? Only where a DestinationRule is given."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from extproc.mesh.audit.checks.sidecar import DEFAULT_LIMIT
from extproc.mesh.audit.finding import Hit, Severity, Theme
from extproc.mesh.audit.node import Node
from extproc.mesh.audit.reach import Mesh
from extproc.mesh.audit.world import Cluster

THEME = Theme("Istio's subsets")


def rules_of(mesh: Mesh, cluster: Cluster) -> tuple[str, list[Node]]:
    """The subset that a cluster's name has, and the DestinationRules of its host."""
    parts = cluster.name.split("|")
    if len(parts) != 4 or not parts[2]:
        return "", []
    found = []
    for rule in mesh.world.rules:
        host = rule["host"].text()
        if host and (parts[3] == host or parts[3].startswith(f"{host}.")):
            found.append(rule)
    return parts[2], found


def subset_of(mesh: Mesh, cluster: Cluster) -> tuple[Node, Node] | None:
    """The rule and the subset that a cluster is made from."""
    name, rules = rules_of(mesh, cluster)
    for rule in rules:
        for subset in rule["subsets"].items():
            if subset["name"].text() == name:
                return rule, subset
    return None


@THEME.check(
    "subset-missing",
    Severity.ERROR,
    "a unit's subset is not in its DestinationRule",
    "Istio makes a cluster for each subset. Without it every request to that unit is a 503 held "
    "against the unit, and as a fallback it takes nothing.",
    "subsets:\n- {name: unit-a, labels: {unit: a}}",
)
def subset_missing(mesh: Mesh) -> Iterator[Hit]:
    for cluster in mesh.units.values():
        name, rules = rules_of(mesh, cluster)
        if rules and subset_of(mesh, cluster) is None:
            yield Hit(rules[0]["subsets"], cluster.of, f"{name} is none of them")


@THEME.check(
    "subsets-overlap",
    Severity.ERROR,
    "the subsets of two units select the same pods",
    "Then a retry on the other unit may reach the very host that answered garbage, and verdicts "
    "are charged to a unit by chance.",
    "subsets:\n- {name: unit-a, labels: {unit: a}}\n- {name: unit-b, labels: {unit: b}}",
)
def subsets_overlap(mesh: Mesh) -> Iterator[Hit]:
    clusters = sorted(mesh.units.values(), key=lambda cluster: cluster.name)
    for one, other in combinations(clusters, 2):
        first, second = subset_of(mesh, one), subset_of(mesh, other)
        if first is None or second is None or one.name.split("|")[3] != other.name.split("|")[3]:
            continue
        labels, others = _labels(first[1]), _labels(second[1])
        if labels <= others or others <= labels:
            said = f"{first[1]['name'].text()} and {second[1]['name'].text()}"
            yield Hit(second[1]["labels"], other.of, said)


def _labels(subset: Node) -> set[tuple[str, str]]:
    return {(name, value.text()) for name, value in subset["labels"].entries()}


@THEME.check(
    "subset-connection-pool",
    Severity.WARNING,
    "a connection pool takes few requests at a time",
    "Streams of tokens are long, so more of them are open than of ordinary requests. What exceeds "
    "the pool gets 503 at the unit's tier, and that counts against the unit.",
    "trafficPolicy:\n  connectionPool:\n    tcp: {maxConnections: 100000}\n"
    "    http: {http1MaxPendingRequests: 100000, http2MaxRequests: 100000}",
)
def subset_connection_pool(mesh: Mesh) -> Iterator[Hit]:
    for cluster in mesh.units.values():
        found = subset_of(mesh, cluster)
        if found is None:
            continue
        for level in found:
            pool = level["traffic_policy"]["connection_pool"]
            for at in (
                pool["tcp"]["max_connections"],
                pool["http"]["http1_max_pending_requests"],
                pool["http"]["http2_max_requests"],
            ):
                if at and at.number(0) <= DEFAULT_LIMIT:
                    yield Hit(at, cluster.of, f"{at.number(0):g}")
