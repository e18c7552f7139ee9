"""Our filter among all others: which it is, and with which settings it runs on a route."""

from __future__ import annotations

from dataclasses import dataclass

from extproc.mesh.audit.gather import is_processor
from extproc.mesh.audit.node import ABSENT, Node
from extproc.mesh.audit.world import (
    BODY_MODES,
    EXT_PROC_ROUTE,
    HEADER_MODES,
    NAMESPACE,
    ROUTER,
    Cluster,
    Filter,
    Manager,
    Route,
    Target,
    World,
)


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """One way in which our filter runs: its settings under a route's overrides."""

    filter: Filter
    override: Node
    upstream: bool
    of: str
    manager: Manager | None = None
    cluster: Cluster | None = None

    def __getitem__(self, name: str) -> Node:
        """A setting of the filter as it is in force."""
        found = self.override[name]
        return found if found else self.filter.config[name]

    @property
    def key(self) -> tuple[str, str]:
        """The same for the same filter under the same overrides."""
        return (self.filter.node.path, self.override.path)

    @property
    def observes(self) -> bool:
        """Whether Envoy sends copies and waits for nothing."""
        return self["observability_mode"].flag()

    @property
    def body(self) -> str:
        return self["processing_mode"]["response_body_mode"].choice(BODY_MODES)

    @property
    def headers(self) -> str:
        mode = self["processing_mode"]["response_header_mode"].choice(HEADER_MODES)
        return "SEND" if mode == "DEFAULT" else mode

    @property
    def reads(self) -> bool:
        """Whether the sidecar sees the answers at all, unasked."""
        return self.body != "NONE" and self.headers == "SEND"

    @property
    def holds(self) -> bool:
        """Whether it can keep a corrupt beginning from the client, as far as settings go."""
        return (
            not self.observes
            and self.reads
            and (
                self.body in ("BUFFERED", "BUFFERED_PARTIAL", "FULL_DUPLEX_STREAMED")
                or self["send_body_without_waiting_for_header_response"].flag()
            )
        )

    @property
    def sidecar(self) -> str:
        """The cluster of the sidecar, "" if it is not reached by one."""
        return target_of(self["grpc_service"])

    @property
    def attributes(self) -> list[str]:
        return self["response_attributes"].texts()


def target_of(service: Node) -> str:
    """The cluster that a ``GrpcService`` names."""
    return service.at("envoy_grpc", "cluster_name").text()


def _signed(entry: Filter) -> bool:
    """Whether a processor bears our marks."""
    config = entry.config
    options = config["metadata_options"]
    rules = config["mutation_rules"]
    said = [
        entry.name,
        target_of(config["grpc_service"]),
        config.at("grpc_service", "google_grpc", "target_uri").text(),
        config.at("grpc_service", "envoy_grpc", "authority").text(),
        *options.at("receiving_namespaces", "untyped").texts(),
        *options.at("cluster_metadata_forwarding_namespaces", "untyped").texts(),
        *options.at("forwarding_namespaces", "untyped").texts(),
        rules.at("allow_expression", "regex").text(),
        rules.at("disallow_expression", "regex").text(),
    ]
    return any("semantic" in text.lower() for text in said)


def ours(world: World) -> set[str]:
    """The paths of the filters that are ours. Another processor (an endpoint picker, a rate
    limiter) is none of our business, unless nothing else could be ours and it reads bodies."""
    all_filters = [entry for manager in world.managers for entry in manager.filters]
    all_filters += [entry for cluster in world.clusters.values() for entry in cluster.filters]
    all_filters += [entry for manager in world.managers for entry in upstream_of(manager)]
    processors = [entry for entry in all_filters if is_processor(entry)]
    if world.sidecar_cluster:
        marked = [
            entry
            for entry in processors
            if target_of(entry.config["grpc_service"]) == world.sidecar_cluster
        ]
    else:
        marked = [entry for entry in processors if _signed(entry)]
        servers = {target_of(entry.config["grpc_service"]) for entry in marked} - {""}
        marked += [
            entry for entry in processors if target_of(entry.config["grpc_service"]) in servers
        ]
        marked = marked or [
            entry
            for entry in processors
            if entry.config.at("processing_mode", "response_body_mode").choice(BODY_MODES) != "NONE"
        ]
    return {entry.node.path for entry in marked}


def upstream_of(manager: Manager) -> tuple[Filter, ...]:
    """The upstream filters that a manager's router brings along."""
    found: list[Filter] = []
    for entry in manager.filters:
        if entry.type.endswith(ROUTER):
            for inner in entry.config["upstream_http_filters"].items():
                place = inner["typed_config"]
                found.append(
                    Filter(
                        inner,
                        inner["name"].text(),
                        place.type(),
                        place.any(),
                        inner["disabled"].flag(),
                    )
                )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Override:
    """What a route says of a filter. ``disabled``: None where it says nothing of that."""

    node: Node = ABSENT
    settings: Node = ABSENT
    disabled: bool | None = None


def override(name: str, route: Route | None, target: Target | None) -> Override:
    """What the most particular level says of the filter ``name``."""
    if route is None:
        return Override()
    for level in route.levels(target):
        place = level["typed_per_filter_config"].key(name)
        if not place:
            continue
        if place.type().endswith("route.v3.FilterConfig"):
            wrapped = place.any()
            if wrapped["disabled"].flag():
                return Override(wrapped["disabled"], ABSENT, True)
            inner = wrapped["config"]
            found = _per_route(inner) if inner else Override(place)
            return Override(found.node, found.settings, bool(found.disabled))
        found = _per_route(place)
        return Override(found.node, found.settings, bool(found.disabled))
    return Override()


def _per_route(place: Node) -> Override:
    if not place.type().endswith(EXT_PROC_ROUTE):
        return Override(place)
    config = place.any()
    if config["disabled"].flag():
        return Override(config["disabled"], ABSENT, True)
    return Override(place, config["overrides"], None)


def namespaces(node: Node) -> list[str]:
    """The untyped namespaces of a metadata option."""
    return node["untyped"].texts()


def tells_namespace(guard: Guard, option: str) -> bool:
    """Whether our namespace is among those of a metadata option."""
    return NAMESPACE in namespaces(guard["metadata_options"][option])
