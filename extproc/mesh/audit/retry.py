"""Where a retry goes: to another configuration, or to another host of the same."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from extproc.mesh.audit.node import Node
from extproc.mesh.audit.reach import Front, Mesh


class Kind(StrEnum):
    """What a retry reaches."""

    DIFFERENT = "different"
    SAME = "same"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Reach:
    """Where the retries of a front go, and why. ``check``: the particular check that says so."""

    kind: Kind
    why: str
    at: Node
    check: str = ""

    @property
    def has_own_check(self) -> bool:
        return bool(self.check)


def extension(node: Node) -> str:
    """The last word of the name of a retry extension, by its type where it has one."""
    kind = node["typed_config"].type()
    for word in (
        "previous_priorities",
        "previous_hosts",
        "omit_host_metadata",
        "omit_canary_hosts",
    ):
        if f".{word}." in kind or node["name"].text().endswith(word):
            return word
    return node["name"].text()


def retry_reach(front: Front, mesh: Mesh) -> Reach:
    """Where the retries of ``front`` go. Whether there are any is not asked here."""
    retry = front.route.retry
    if front.leg.target.weighted and len(front.route.targets) > 1:
        return _weighted(front, mesh, retry)
    cluster = front.cluster
    if cluster is None or not cluster.known_hosts:
        why = f"the hosts of cluster {front.leg.target.cluster} are not in this configuration"
        return Reach(Kind.UNKNOWN, why, retry)
    if cluster.composite:
        found = [_units_of(mesh, name) for name in cluster.composite]
        if len(found) > 1 and not found[0] & found[1]:
            return Reach(
                Kind.DIFFERENT, "a composite cluster sends each attempt to the next", retry
            )
        why = "the first two clusters of the composite are one configuration"
        return Reach(Kind.SAME, why, cluster.node["cluster_type"])
    tiers = _tiers(front, mesh)
    if tiers is None:
        return Reach(Kind.UNKNOWN, "the hosts of a member are not in this configuration", retry)
    everything = frozenset().union(*(unit for hosts in tiers for unit in hosts))
    if len(everything) < 2:
        only = next(iter(everything), "no unit")
        why = f"behind cluster {cluster.name} there is only {only}"
        return Reach(Kind.SAME, why, cluster.node["load_assignment"])
    predicates = {extension(entry) for entry in retry["retry_host_predicate"].items()}
    if extension(retry["retry_priority"]) == "previous_priorities" and len(tiers) > 1:
        return _priorities(front, retry, tiers)
    if len(tiers) > 1 and len(tiers[0]) < 2:
        why = f"priority 0 of cluster {cluster.name} is one unit, and the retry stays there"
        return Reach(Kind.SAME, why, retry["retry_priority"], "retry-priority-missing")
    first = tiers[0]
    if "omit_host_metadata" in predicates:
        why = "omit_host_metadata leaves out a unit that is named once and for all"
        return Reach(Kind.UNKNOWN, why, retry["retry_host_predicate"])
    if "previous_hosts" in predicates and len(set(first)) == len(first) > 1 and _apart(first):
        if retry["host_selection_retry_max_attempts"].number(1) >= 3:
            return Reach(
                Kind.DIFFERENT, "previous_hosts, and each host is a unit of its own", retry
            )
        why = "host_selection_retry_max_attempts below 3: the same host may be taken all the same"
        return Reach(Kind.SAME, why, retry["host_selection_retry_max_attempts"])
    if len(tiers) > 1:
        why = f"priority 0 of cluster {cluster.name} has several hosts, and the retry stays there"
        return Reach(Kind.SAME, why, retry["retry_priority"], "retry-priority-missing")
    why = f"all units of cluster {cluster.name} share one priority, and any host may be taken again"
    return Reach(Kind.SAME, why, cluster.node["load_assignment"])


def _weighted(front: Front, mesh: Mesh, retry: Node) -> Reach:
    found = [_units_of(mesh, target.cluster) for target in front.route.targets]
    if not retry["refresh_cluster_on_retry"].flag():
        why = "weighted clusters: the retry stays in the cluster that was drawn"
        at = retry["refresh_cluster_on_retry"]
        return Reach(Kind.SAME, why, at, "weighted-without-refresh")
    if len(frozenset().union(*found)) < 2:
        return Reach(Kind.SAME, "all weighted clusters are one unit", front.route.action)
    return Reach(Kind.DIFFERENT, "refresh_cluster_on_retry draws another cluster", retry)


def _priorities(front: Front, retry: Node, tiers: list[list[frozenset[str]]]) -> Reach:
    at = retry.at("retry_priority", "typed_config").any()["update_frequency"]
    if at.number(2) != 1:
        why = "update_frequency is not 1: the first retry stays in its priority"
        return Reach(Kind.SAME, why, at, "retry-priority-update-frequency")
    seen: dict[str, int] = {}
    for number, hosts in enumerate(tiers):
        for unit in frozenset().union(*hosts):
            if seen.setdefault(unit, number) != number:
                why = f"{unit} is in priority {seen[unit]} and in {number}"
                where = front.cluster.node["load_assignment"] if front.cluster else retry
                return Reach(Kind.SAME, why, where)
    return Reach(Kind.DIFFERENT, "previous_priorities, and no unit is in two priorities", retry)


def _apart(hosts: list[frozenset[str]]) -> bool:
    return sum(map(len, hosts)) == len(frozenset().union(*hosts))


def _tiers(front: Front, mesh: Mesh) -> list[list[frozenset[str]]] | None:
    """The units of each host, by priority; an aggregate's members one after the other."""
    cluster = front.cluster
    assert cluster is not None  # noqa: S101  # asked for before
    members = cluster.aggregate or (cluster.name,)
    tiers: list[list[frozenset[str]]] = []
    for name in members:
        member = mesh.world.cluster(name)
        if member is None or not member.known_hosts:
            return None
        levels: dict[int, list[frozenset[str]]] = {}
        for host in member.endpoints:
            levels.setdefault(host.priority, []).append(mesh.units_behind(host, member))
        tiers += [levels[number] for number in sorted(levels)]
    return tiers


def _units_of(mesh: Mesh, name: str) -> frozenset[str]:
    cluster = mesh.world.cluster(name)
    if cluster is None:
        return frozenset({name})
    found = frozenset().union(*(mesh.units_behind(host, cluster) for host in cluster.endpoints))
    return found or frozenset({name})
