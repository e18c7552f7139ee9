"""Documents in, a world out: whatever form the configuration has.

A bootstrap, an admin interface's config_dump, a file of discovered resources, and the manifests of
a mesh all hold the same messages; here they are found, and put together by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from extproc.mesh.audit.node import ABSENT, Node
from extproc.mesh.audit.world import (
    EXT_PROC,
    HTTP_OPTIONS,
    MANAGER,
    Cluster,
    Endpoint,
    Filter,
    Manager,
    Route,
    Target,
    World,
)


@dataclass
class Resources:
    """Envoy's messages as they were found, unlinked."""

    listeners: list[Node] = field(default_factory=list)
    clusters: list[Node] = field(default_factory=list)
    tables: list[Node] = field(default_factory=list)
    scopes: list[Node] = field(default_factory=list)
    assignments: list[Node] = field(default_factory=list)
    filters: list[Node] = field(default_factory=list)
    """Extension configurations that came by ECDS."""

    loose: list[Filter] = field(default_factory=list)
    """HTTP filters that a patch puts into chains which are not here."""

    loose_routes: list[tuple[Node, Node]] = field(default_factory=list)
    """Patched routes, each with the patch of its virtual host."""

    loose_hosts: list[Node] = field(default_factory=list)
    partial: dict[str, Node] = field(default_factory=dict)
    """Patches to clusters that are not here, by the cluster's name."""

    rules: list[Node] = field(default_factory=list)
    """The ``spec`` of each DestinationRule: it makes clusters, and none of them is here."""

    bootstrap: Node = ABSENT
    runtime: dict[str, Any] = field(default_factory=dict)
    whole: bool = True
    notes: list[str] = field(default_factory=list)


def from_bootstrap(found: Resources, bootstrap: Node) -> None:
    """Takes in a ``Bootstrap``."""
    found.bootstrap = bootstrap
    static = bootstrap["static_resources"]
    found.listeners += static["listeners"].items()
    found.clusters += static["clusters"].items()
    runtime_of(found, bootstrap)
    dynamic = bootstrap["dynamic_resources"]
    for name, what in (("lds_config", "listeners"), ("cds_config", "clusters")):
        if dynamic[name]:
            found.whole = False
            found.notes.append(
                f"{dynamic[name].path}: {what} that a server sends are not in this file; audit the "
                f"admin address of the running Envoy to see them"
            )


def runtime_of(found: Resources, bootstrap: Node) -> None:
    """Takes in the static layers of runtime; a later layer wins."""
    for layer in bootstrap.at("layered_runtime", "layers").items():
        found.runtime.update(layer["static_layer"].fields())


def from_dump(found: Resources, dump: Node) -> None:
    """Takes in a ``/config_dump``."""
    bootstrap = ABSENT
    seen: set[str] = set()
    for part in dump["configs"].items():
        kind = part.type().rpartition(".")[2]
        seen.add(kind)
        if kind == "BootstrapConfigDump":
            bootstrap = part["bootstrap"]
        elif kind == "ClustersConfigDump":
            for group in ("static_clusters", "dynamic_active_clusters"):
                found.clusters += [entry["cluster"] for entry in part[group].items()]
        elif kind == "ListenersConfigDump":
            found.listeners += [entry["listener"] for entry in part["static_listeners"].items()]
            for entry in part["dynamic_listeners"].items():
                active = entry.at("active_state", "listener")
                if active:
                    found.listeners.append(active)
        elif kind == "RoutesConfigDump":
            for group in ("static_route_configs", "dynamic_route_configs"):
                found.tables += [entry["route_config"] for entry in part[group].items()]
        elif kind == "ScopedRoutesConfigDump":
            for group in ("inline_scoped_route_configs", "dynamic_scoped_route_configs"):
                for entry in part[group].items():
                    for scope in entry["scoped_route_configs"].items():
                        found.scopes.append(
                            Node({"of": entry.value, "scope": scope.value}, scope.path)
                        )
        elif kind == "EndpointsConfigDump":
            for group in ("static_endpoint_configs", "dynamic_endpoint_configs"):
                found.assignments += [entry["endpoint_config"] for entry in part[group].items()]
        elif kind == "EcdsConfigDump":
            found.filters += [entry["ecds_filter"] for entry in part["ecds_filters"].items()]
        elif kind in _RESOURCES:
            from_resource(found, part)
        elif kind in ("DynamicCluster", "StaticCluster"):  # /config_dump?resource=...
            found.clusters.append(part["cluster"])
        elif kind == "DynamicListener":
            found.listeners.append(part.at("active_state", "listener"))
        elif kind == "StaticListener":
            found.listeners.append(part["listener"])
    if bootstrap:
        found.bootstrap = bootstrap
        runtime_of(found, bootstrap)
        if "ListenersConfigDump" not in seen:
            found.listeners += bootstrap.at("static_resources", "listeners").items()
        if "ClustersConfigDump" not in seen:
            found.clusters += bootstrap.at("static_resources", "clusters").items()
    if not {"ListenersConfigDump", "ClustersConfigDump"} <= seen:
        found.whole = bool(bootstrap and not bootstrap["dynamic_resources"])
    if "EndpointsConfigDump" not in seen:
        found.notes.append(
            f"{dump['configs'].path}: hosts that a server sends are not in this dump; take it with "
            f"/config_dump?include_eds"
        )


_RESOURCES = {
    "Cluster": "clusters",
    "Listener": "listeners",
    "RouteConfiguration": "tables",
    "ClusterLoadAssignment": "assignments",
    "TypedExtensionConfig": "filters",
}


def from_resource(found: Resources, resource: Node) -> bool:
    """Takes in one message with its ``@type``; whether it is one that an audit reads."""
    kind = resource.type().rpartition(".")[2]
    if kind == "Resource":
        return from_resource(found, resource["resource"])
    if kind not in _RESOURCES:
        return False
    getattr(found, _RESOURCES[kind]).append(resource.any())
    return True


def build(found: Resources) -> World:
    """Links what was found."""
    linker = _Linker(found)
    managers = [manager for listener in found.listeners for manager in linker.managers(listener)]
    used = {table.path for manager in managers for table in {r.table for r in manager.routes}}
    orphans = [table for table in found.tables if table.path not in used]
    loose = [
        *(route for table in orphans for route in linker.table(table)),
        *(route for host in found.loose_hosts for route in linker.host(host, ABSENT)),
        *(
            route
            for node, host in found.loose_routes
            if (route := linker.route(node, host, ABSENT, patched=True)) is not None
        ),
    ]
    if found.loose or (loose and all(manager.internal for manager in managers)):
        managers.append(Manager(ABSENT, "", False, tuple(found.loose), tuple(loose), bool(loose)))
    clusters = {name: linker.cluster(node, name) for name, node in linker.nodes.items()}
    if not found.whole:  # what a patch or a route names exists elsewhere
        for name in (*found.partial, *_named(managers)):
            if name not in clusters:
                node = found.partial.get(name, Node(None, f"cluster {name}"))
                clusters[name] = Cluster(node, name, (), (), discovered=True, partial=True)
    return World(
        managers=tuple(managers),
        clusters=clusters,
        listeners=frozenset(
            listener["name"].text() for listener in found.listeners if is_internal(listener)
        ),
        bootstrap=found.bootstrap,
        runtime=found.runtime,
        whole=found.whole,
        rules=tuple(found.rules),
        notes=tuple(found.notes),
    )


def _named(managers: list[Manager]) -> Iterator[str]:
    for manager in managers:
        for route in manager.routes:
            yield from (target.cluster for target in (*route.targets, *route.mirrors))


def is_internal(listener: Node) -> bool:
    """Whether a listener is reached from within Envoy only."""
    return bool(listener["internal_listener"]) or bool(
        listener.at("address", "envoy_internal_address")
    )


class _Linker:
    def __init__(self, found: Resources) -> None:
        self.nodes: dict[str, Node] = {}
        for node in found.clusters:
            self.nodes.setdefault(node["name"].text(), node)
        self._tables: dict[str, Node] = {}
        for table in found.tables:
            self._tables.setdefault(table["name"].text(), table)
        self._assignments: dict[str, Node] = {}
        for assignment in found.assignments:
            # A dump lists the same hosts once more for static clusters, without their defaults.
            self._assignments.setdefault(assignment["cluster_name"].text(), assignment)
        self._extensions = {node["name"].text(): node for node in found.filters}
        self._scopes = found.scopes

    def managers(self, listener: Node) -> Iterator[Manager]:
        chains = [*listener["filter_chains"].items(), listener["default_filter_chain"]]
        places = [entry["typed_config"] for chain in chains for entry in chain["filters"].items()]
        places.append(listener.at("api_listener", "api_listener"))
        for place in places:
            if not place.type().endswith(MANAGER):
                continue
            config = place.any()
            routes, routed = self._routes(config)
            yield Manager(
                config,
                listener["name"].text(),
                is_internal(listener),
                tuple(self.filters(config["http_filters"].items())),
                tuple(routes),
                routed,
                listener,
            )

    def filters(self, entries: Iterable[Node]) -> Iterator[Filter]:
        for entry in entries:
            name, place, matched = entry["name"].text(), entry["typed_config"], False
            if entry["config_discovery"]:
                sent = self._extensions.get(name)
                place = (
                    sent["typed_config"] if sent else entry.at("config_discovery", "default_config")
                )
            if place.type().endswith("ExtensionWithMatcher"):
                matched = True
                place = place.any().at("extension_config", "typed_config")
            yield Filter(entry, name, place.type(), place.any(), entry["disabled"].flag(), matched)

    def _routes(self, manager: Node) -> tuple[list[Route], bool]:
        if manager["route_config"]:
            return list(self.table(manager["route_config"])), True
        if manager["rds"]:
            name = manager.at("rds", "route_config_name").text()
            table = self._tables.get(name)
            return (list(self.table(table)), True) if table else ([], False)
        if manager["scoped_routes"]:
            return self._scoped(manager["scoped_routes"])
        return [], True

    def _scoped(self, scoped: Node) -> tuple[list[Route], bool]:
        inline = scoped.at("scoped_route_configurations_list", "scoped_route_configurations")
        scopes = inline.items()
        name = scoped["name"].text()
        for entry in self._scopes:
            if entry["of"]["name"].text() == name:
                scopes.append(Node(entry["scope"].value, entry.path))
        routes: list[Route] = []
        known = bool(scopes)
        for scope in scopes:
            table = scope["route_configuration"]
            if not table:
                table = self._tables.get(scope["route_configuration_name"].text(), ABSENT)
            known = known and bool(table)
            routes += self.table(table)
        return routes, known

    def table(self, table: Node) -> Iterator[Route]:
        """All routes of a ``RouteConfiguration``."""
        for host in table["virtual_hosts"].items():
            yield from self.host(host, table)

    def host(self, host: Node, table: Node) -> Iterator[Route]:
        """All routes of a virtual host, those within a matcher's tree as well."""
        nodes = [*host["routes"].items(), *_within(host["matcher"])]
        for node in nodes:
            if (route := self.route(node, host, table)) is not None:
                yield route

    def route(self, node: Node, host: Node, table: Node, patched: bool = False) -> Route | None:
        """A route that sends somewhere; None for a redirect or a direct response."""
        action = node["route"]
        if not action:
            return None
        targets = []
        if action["cluster"]:
            targets.append(Target(action["cluster"].text(), action))
        for entry in action.at("weighted_clusters", "clusters").items():
            if entry["name"]:
                targets.append(Target(entry["name"].text(), entry, weighted=True))
        mirrors = next(
            (
                level.items()
                for level in (
                    action["request_mirror_policies"],
                    host["request_mirror_policies"],
                    table["request_mirror_policies"],
                )
                if level
            ),
            [],
        )
        shadows = tuple(
            Target(entry["cluster"].text(), entry) for entry in mirrors if entry["cluster"]
        )
        return Route(node, action, host, table, tuple(targets), shadows, patched)

    def cluster(self, node: Node, name: str) -> Cluster:
        """A cluster with its hosts, wherever they stand."""
        kind = node["type"].choice(("STATIC", "STRICT_DNS", "LOGICAL_DNS", "EDS", "ORIGINAL_DST"))
        extension = node.at("cluster_type", "typed_config")
        aggregate: list[str] = []
        composite: list[str] = []
        if extension.type().endswith("aggregate.v3.ClusterConfig"):
            aggregate = extension.any()["clusters"].texts()
        elif extension.type().endswith("composite.v3.ClusterConfig"):
            composite = [entry["name"].text() for entry in extension.any()["clusters"].items()]
        assignment = node["load_assignment"]
        service = node.at("eds_cluster_config", "service_name").text() or name
        if not assignment:
            assignment = self._assignments.get(service, self._assignments.get(name, assignment))
        options = node["typed_extension_protocol_options"].key(HTTP_OPTIONS).any()
        return Cluster(
            node,
            name,
            tuple(_endpoints(assignment)),
            tuple(self.filters(options["http_filters"].items())),
            tuple(aggregate),
            tuple(composite),
            discovered=kind != "STATIC" or bool(extension),
            policy=assignment["policy"],
        )


def _endpoints(assignment: Node) -> Iterator[Endpoint]:
    for locality in assignment["endpoints"].items():
        priority = int(locality["priority"].number(0))
        for entry in locality["lb_endpoints"].items():
            address = entry.at("endpoint", "address")
            internal = address.at("envoy_internal_address", "server_listener_name").text()
            socket = address["socket_address"]
            yield Endpoint(
                entry,
                priority,
                internal,
                socket["address"].text() or address.at("pipe", "path").text(),
                int(socket["port_value"].number(0)),
            )


def _within(tree: Node, depth: int = 0) -> Iterator[Node]:
    """Routes that the actions of a matcher tree hold."""
    if depth > 24 or not isinstance(tree.value, (dict, list)):
        return
    if isinstance(tree.value, list):
        for entry in tree.items():
            yield from _within(entry, depth + 1)
        return
    if tree.type().endswith("route.v3.Route"):
        yield tree.any()
        return
    for _, entry in tree.entries():
        yield from _within(entry, depth + 1)


def is_processor(entry: Filter) -> bool:
    """Whether a filter is an external processor, ours or another's."""
    return entry.type.endswith(EXT_PROC)
