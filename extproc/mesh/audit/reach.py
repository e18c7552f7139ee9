"""From each client-facing route to the hosts that answer, and where our filter stands between.

A *leg* is one manager's route to one cluster. A cluster whose hosts are internal listeners leads on
to the managers there: that is the second tier. The last cluster of a way is a *unit's*.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from extproc.mesh.audit.guard import Guard, Override, ours, override, upstream_of
from extproc.mesh.audit.node import ABSENT, Node
from extproc.mesh.audit.world import Cluster, Endpoint, Filter, Manager, Route, Target, World

DEEPEST = 6
"""Tiers that are followed."""


@dataclass(frozen=True, slots=True, eq=False)
class Leg:
    """One manager's route to one of its clusters."""

    manager: Manager
    route: Route
    target: Target
    mirrored: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """One way from a client to a unit's hosts."""

    legs: tuple[Leg, ...]
    cluster: Cluster
    """The last one: its hosts answer."""

    guards: tuple[tuple[int, Guard], ...]
    """Where our filter runs: the leg, and how. An upstream filter runs at the leg's end."""

    off: tuple[tuple[Leg, Filter, Override], ...]
    """Where it is in the chain, and does not run."""

    unit: str = ""
    """Whose hosts they are, as the sidecar would know it; "" if nothing says."""

    @property
    def mirrored(self) -> bool:
        return any(leg.mirrored for leg in self.legs)


@dataclass(frozen=True, slots=True, eq=False)
class Front:
    """A route that a marker reaches in time for a retry: the tier above the filter."""

    leg: Leg
    cluster: Cluster | None
    ways: tuple[Way, ...]
    guards: tuple[Guard, ...]

    @property
    def route(self) -> Route:
        return self.leg.route

    @property
    def holds(self) -> bool:
        return any(not guard.observes for guard in self.guards)


class Mesh:
    """All ways of a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._ours = ours(world)

    @cached_property
    def ways(self) -> tuple[Way, ...]:
        """Every way from an entry to a cluster of hosts, mirrors included."""
        entries = [manager for manager in self.world.managers if not manager.internal]
        return tuple(
            way
            for manager in entries or self.world.managers
            for way in self._follow(manager, (), (), ())
        )

    @cached_property
    def filters(self) -> tuple[tuple[Filter, Manager | None, Cluster | None], ...]:
        """Our filters, wherever they stand."""
        found: list[tuple[Filter, Manager | None, Cluster | None]] = []
        for manager in self.world.managers:
            found += [(entry, manager, None) for entry in manager.filters if self._is_ours(entry)]
        for cluster in self.world.clusters.values():
            found += [(entry, None, cluster) for entry in cluster.filters if self._is_ours(entry)]
        for manager in self.world.managers:
            for entry in upstream_of(manager):
                if self._is_ours(entry):
                    found.append((entry, manager, ABSENT_CLUSTER))
        return tuple(found)

    @cached_property
    def guards(self) -> tuple[Guard, ...]:
        """Every way of running our filter: on the ways, and where no way is known."""
        found: dict[tuple[str, str], Guard] = {}
        for way in self.ways:
            for _, guard in way.guards:
                found.setdefault((guard.filter.node.path, guard.override.path), guard)
        paths = {path for path, _ in found}
        members = {name for entry in self.world.clusters.values() for name in entry.aggregate}
        for entry, manager, cluster in self.filters:
            ignored = cluster is not None and cluster.name in members
            if entry.node.path not in paths and not ignored:
                guard = _guard(entry, ABSENT, manager, cluster)
                found.setdefault(guard.key, guard)
        return tuple(found.values())

    @cached_property
    def inspected(self) -> tuple[Way, ...]:
        """The ways on which our filter runs."""
        return tuple(way for way in self.ways if way.guards)

    @cached_property
    def units(self) -> dict[str, Cluster]:
        """The clusters whose hosts are engines: inspected, named as units, or siblings of such."""
        found: dict[str, Cluster] = {}
        guarded_targets = set()
        for way in self.ways:
            named = way.unit or way.cluster.unit or self.world.owner(way.cluster.name)
            if way.guards or named:
                found[way.cluster.name] = way.cluster
                guarded_targets |= {id(leg.route) for leg in way.legs}
        for way in self.ways:
            if any(id(leg.route) in guarded_targets for leg in way.legs if not leg.mirrored):
                found.setdefault(way.cluster.name, way.cluster)
        for cluster in self.world.clusters.values():
            if (cluster.unit or self.world.owner(cluster.name)) and not cluster.members:
                found.setdefault(cluster.name, cluster)
        return found

    @cached_property
    def fronts(self) -> tuple[Front, ...]:
        """The routes above our filter, one for each route and cluster."""
        grouped: dict[tuple[str, str, str], list[tuple[Leg, Way, Guard]]] = {}
        for way in self.ways:
            for at, guard in way.guards:
                place = at if guard.upstream else at - 1
                if place < 0 or way.mirrored:
                    continue
                leg = way.legs[place]
                key = (leg.route.node.path, leg.target.node.path, leg.target.cluster)
                grouped.setdefault(key, []).append((leg, way, guard))
        return tuple(
            Front(
                rows[0][0],
                self.world.cluster(rows[0][0].target.cluster),
                tuple(dict.fromkeys(way for _, way, _ in rows)),
                tuple({guard.key: guard for _, _, guard in rows}.values()),
            )
            for rows in grouped.values()
        )

    @cached_property
    def front_clusters(self) -> dict[str, Cluster]:
        """The clusters whose hosts are units, by name."""
        return {
            front.cluster.name: front.cluster for front in self.fronts if front.cluster is not None
        }

    @cached_property
    def level(self) -> tuple[Leg, ...]:
        """Routes in whose own manager our filter runs downstream: a marker comes too late there."""
        found: dict[str, Leg] = {}
        for way in self.ways:
            for at, guard in way.guards:
                if not guard.upstream and at == 0 and not way.mirrored:
                    leg = way.legs[0]
                    found.setdefault(leg.route.node.path, leg)
        return tuple(found.values())

    def _is_ours(self, entry: Filter) -> bool:
        return entry.node.path in self._ours

    def _follow(
        self,
        manager: Manager,
        legs: tuple[Leg, ...],
        guards: tuple[tuple[int, Guard], ...],
        off: tuple[tuple[Leg, Filter, Override], ...],
    ) -> Iterator[Way]:
        if len(legs) >= DEEPEST:
            return
        for route in manager.routes:
            sent = [(target, False) for target in route.targets]
            sent += [(target, True) for target in route.mirrors]
            for target, mirrored in sent:
                leg = Leg(manager, route, target, mirrored)
                here, idle = list(guards), list(off)
                if not mirrored:  # a shadow leaves at the router, past the downstream filters
                    self._pass(manager.filters, leg, len(legs), False, here, idle)
                cluster = self.world.cluster(target.cluster)
                if cluster is None:
                    continue
                yield from self._beyond(cluster, (*legs, leg), here, idle, None)

    def _pass(
        self,
        filters: tuple[Filter, ...],
        leg: Leg,
        at: int,
        upstream: bool,
        guards: list[tuple[int, Guard]],
        off: list[tuple[Leg, Filter, Override]],
        cluster: Cluster | None = None,
    ) -> None:
        for entry in filters:
            if not self._is_ours(entry):
                continue
            said = Override() if upstream else override(entry.name, leg.route, leg.target)
            if said.disabled or (entry.disabled and said.disabled is None):
                off.append((leg, entry, said))
                continue
            guard = _guard(entry, said.settings, leg.manager, cluster if upstream else None)
            guards.append((at, guard))

    def _beyond(
        self,
        cluster: Cluster,
        legs: tuple[Leg, ...],
        guards: list[tuple[int, Guard]],
        off: list[tuple[Leg, Filter, Override]],
        above: Cluster | None,
    ) -> Iterator[Way]:
        leg = legs[-1]
        here, idle = list(guards), list(off)
        if above is None:  # of an aggregate, the members' own filters are ignored
            chain = cluster.filters or upstream_of(leg.manager)
            self._pass(chain, leg, len(legs) - 1, True, here, idle, cluster)
        if cluster.members and len(legs) < DEEPEST:
            outer = cluster if cluster.aggregate else None
            for name in cluster.members:
                member = self.world.cluster(name)
                if member is not None and member.name != cluster.name:
                    yield from self._beyond(member, legs, here, idle, outer)
            return
        inner: set[str] = {host.listener for host in cluster.endpoints if host.listener}
        managers = [found for name in sorted(inner) for found in self.world.manager_of(name)]
        for manager in managers:
            if any(leg.manager is manager for leg in legs):
                continue
            yield from self._follow(manager, legs, tuple(here), tuple(idle))
        if not inner:
            yield Way(legs, cluster, tuple(here), tuple(idle), self.unit(cluster))

    def unit(self, cluster: Cluster, host: Endpoint | None = None) -> str:
        """The unit of a cluster's hosts, as the sidecar finds it; "" if nothing says."""
        if cluster.unit:
            return cluster.unit
        named = {entry.unit for entry in ([host] if host else cluster.endpoints)}
        if len(named) == 1 and (found := next(iter(named))):
            return found
        return self.world.owner(cluster.name)

    def units_behind(self, host: Endpoint, cluster: Cluster) -> frozenset[str]:
        """The units that one host of a cluster leads to. Where nothing names one, the cluster at
        the end stands for it."""
        if not host.listener:
            unit = self.unit(cluster, host)
            return frozenset({unit or cluster.name})
        return frozenset(
            way.unit or way.cluster.name
            for manager in self.world.manager_of(host.listener)
            for way in self._follow(manager, (), (), ())
            if not way.mirrored
        )


ABSENT_CLUSTER = Cluster(ABSENT, "", (), ())
"""Stands for any cluster: a router's upstream filters run for all."""


def _guard(
    entry: Filter, settings: Node, manager: Manager | None, cluster: Cluster | None
) -> Guard:
    of = cluster.of if cluster is not None and cluster.name else manager.of if manager else ""
    return Guard(entry, settings, cluster is not None, of, manager, cluster)
