"""What a configuration comes to: listeners, their routes, clusters and the filter, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from extproc.mesh.audit.node import ABSENT, Node

if TYPE_CHECKING:
    from extproc.config import Settings

NAMESPACE = "semantic.extproc"
MARKER = "x-semantic-verdict"
OWN_HEADERS = (MARKER, "x-semantic-unit", "x-semantic-release", "x-semantic-state")
HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

EXT_PROC = "ext_proc.v3.ExternalProcessor"
EXT_PROC_ROUTE = "ext_proc.v3.ExtProcPerRoute"
MANAGER = "http_connection_manager.v3.HttpConnectionManager"
ROUTER = "router.v3.Router"
HEADER_MUTATION = "header_mutation.v3.HeaderMutation"

HEADER_MODES = ("DEFAULT", "SEND", "SKIP")
BODY_MODES = ("NONE", "STREAMED", "BUFFERED", "BUFFERED_PARTIAL", "FULL_DUPLEX_STREAMED", "GRPC")
PRIORITIES = ("DEFAULT", "HIGH")

MIB = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Filter:
    """One HTTP filter of a chain."""

    node: Node
    name: str
    type: str
    config: Node
    disabled: bool = False
    matched: bool = False
    """Whether a matcher decides, request by request, if it runs."""

    after_router: bool = False
    """Whether a patch puts it behind the router, which a patch alone knows."""

    policy: bool = False
    """Whether it comes from an EnvoyExtensionPolicy, which knows only some of the settings."""


@dataclass(frozen=True, slots=True, eq=False)
class Manager:
    """One HTTP connection manager."""

    node: Node
    listener: str
    internal: bool
    filters: tuple[Filter, ...]
    routes: tuple[Route, ...]
    routed: bool
    """Whether its routes are known; not so while they come from a server that was not asked."""

    listener_node: Node = ABSENT

    @property
    def of(self) -> str:
        return f"listener {self.listener}" if self.listener else "the patched listener"

    @property
    def stat_prefix(self) -> str:
        return self.node["stat_prefix"].text()


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """A cluster that a route sends to. ``node`` is its entry, or the route's action."""

    cluster: str
    node: Node
    weighted: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """One route, with what it inherits from."""

    node: Node
    action: Node
    host: Node
    table: Node
    targets: tuple[Target, ...]
    mirrors: tuple[Target, ...]
    patched: bool = False
    """Whether it is a patch: what it leaves out is as the control plane has it."""

    @property
    def of(self) -> str:
        name = self.node["name"].text()
        host = self.host["name"].text()
        return f"route {name}" if name else f"virtual host {host}" if host else "route"

    def levels(self, target: Target | None = None) -> list[Node]:
        """Where a setting of the route may stand, the most particular first."""
        weighted = [target.node] if target is not None and target.weighted else []
        return [*weighted, self.node, self.host, self.table]

    @property
    def retry(self) -> Node:
        """The retry policy in force; the place for one when there is none."""
        return next(
            (found for found in (self.action["retry_policy"], self.host["retry_policy"]) if found),
            self.action["retry_policy"],
        )


@dataclass(frozen=True, slots=True, eq=False)
class Endpoint:
    """One host of a cluster."""

    node: Node
    """The ``LbEndpoint``."""

    priority: int
    listener: str = ""
    """The internal listener it is, "" for a host outside."""

    address: str = ""
    port: int = 0

    @property
    def health_check(self) -> Node:
        return self.node.at("endpoint", "health_check_config")

    @property
    def unit(self) -> str:
        return own_metadata(self.node).key("unit").text()

    @property
    def label(self) -> str:
        """How people know the host."""
        return self.listener or (f"{self.address}:{self.port}" if self.port else self.address)


def own_metadata(node: Node) -> Node:
    """Our part of the metadata of a cluster or a host."""
    return node["metadata"]["filter_metadata"].key(NAMESPACE)


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """One cluster."""

    node: Node
    name: str
    endpoints: tuple[Endpoint, ...]
    filters: tuple[Filter, ...]
    """Of its upstream chain."""

    aggregate: tuple[str, ...] = ()
    composite: tuple[str, ...] = ()
    discovered: bool = False
    """Whether its hosts come from elsewhere (EDS, DNS)."""

    policy: Node = ABSENT
    """Of its load assignment."""

    partial: bool = False
    """Whether most of it is elsewhere: then what is missing here says nothing."""

    @property
    def of(self) -> str:
        return f"cluster {self.name}"

    @property
    def options(self) -> Node:
        """Its ``HttpProtocolOptions``."""
        return self.node["typed_extension_protocol_options"].key(HTTP_OPTIONS).any()

    @property
    def known_hosts(self) -> bool:
        return bool(self.endpoints or self.aggregate or self.composite) or not self.discovered

    @property
    def members(self) -> tuple[str, ...]:
        return self.aggregate or self.composite

    @property
    def unit(self) -> str:
        return own_metadata(self.node).key("unit").text()

    def thresholds(self, priority: str = "DEFAULT") -> Node:
        """The circuit breakers of a routing priority; the place for them if there are none."""
        rows = self.node.at("circuit_breakers", "thresholds")
        for row in rows.items():
            if row["priority"].choice(PRIORITIES) == priority:
                return row
        return Node(None, f"{rows.path}[{len(rows.items())}]")

    @property
    def health_checks(self) -> list[Node]:
        return [check for check in self.node["health_checks"].items() if check["http_health_check"]]


@dataclass(frozen=True, slots=True)
class Live:
    """What a running Envoy's admin interface says beside its configuration."""

    stats: Mapping[str, float] = field(default_factory=dict)
    clusters: Mapping[str, Any] = field(default_factory=dict)
    """cluster -> its entry of ``/clusters?format=json``."""

    version: str = ""


@dataclass(frozen=True)
class World:
    """Everything a check may look at."""

    managers: tuple[Manager, ...] = ()
    clusters: Mapping[str, Cluster] = field(default_factory=dict)
    listeners: frozenset[str] = frozenset()
    """Names of internal listeners."""

    bootstrap: Node = ABSENT
    runtime: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = True
    """Whether all listeners and clusters are here: a patch, or a bootstrap that asks a server for
    the rest, is not."""

    rules: tuple[Node, ...] = ()
    """The ``spec`` of each DestinationRule."""

    notes: tuple[str, ...] = ()
    """What could not be read, for people."""

    settings: Settings | None = None
    sidecar: Mapping[str, Any] | None = None
    """What the sidecar's own admin API says."""

    sidecar_cluster: str = ""
    """The cluster of the sidecar, when the operator says so."""

    live: Live | None = None

    def cluster(self, name: str) -> Cluster | None:
        return self.clusters.get(name)

    def parts(self, cluster: Cluster) -> list[Cluster | None]:
        """The members of an aggregate cluster, None for one that is not there; else itself."""
        return [self.cluster(name) for name in cluster.members] or [cluster]

    def owner(self, cluster: str) -> str:
        """The unit that the sidecar's settings give a cluster to."""
        if self.settings is not None:
            for unit in self.settings.units:
                if cluster in unit.clusters:
                    return unit.id
        return ""

    def manager_of(self, listener: str) -> Iterator[Manager]:
        """The managers of an internal listener."""
        for manager in self.managers:
            if manager.listener == listener and manager.internal:
                yield manager

    @cached_property
    def runtime_flat(self) -> Mapping[str, Any]:
        """Runtime values under their dotted keys."""
        flat: dict[str, Any] = {}

        def put(prefix: str, value: Any) -> None:
            if isinstance(value, dict) and not set(value) <= {"numerator", "denominator"}:
                for name, inner in value.items():
                    put(f"{prefix}.{name}" if prefix else str(name), inner)
            else:
                flat[prefix] = value

        put("", dict(self.runtime))
        return flat

    def runtime_number(self, key: str) -> float | None:
        """A runtime value that overrides a setting, None if there is none."""
        found = self.runtime_flat.get(key)
        try:
            return None if found is None or isinstance(found, dict) else float(found)
        except (TypeError, ValueError):
            return None
