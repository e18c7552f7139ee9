"""Tier two: what stands before and behind one unit."""

from __future__ import annotations

from envoy_data_plane.envoy.config.accesslog.v3 import AccessLog
from envoy_data_plane.envoy.config.cluster.v3 import (
    Cluster,
    ClusterDiscoveryType,
)
from envoy_data_plane.envoy.config.core.v3 import (
    Http1ProtocolOptions,
    HttpProtocolOptions,
    SubstitutionFormatString,
)
from envoy_data_plane.envoy.config.endpoint.v3 import (
    ClusterLoadAssignment,
    Endpoint,
    LbEndpoint,
    LocalityLbEndpoints,
)
from envoy_data_plane.envoy.config.listener.v3 import (
    Filter,
    FilterChain,
    Listener,
    ListenerInternalListenerConfig,
)
from envoy_data_plane.envoy.config.route.v3 import (
    Route,
    RouteAction,
    RouteConfiguration,
    RouteMatch,
    VirtualHost,
)
from envoy_data_plane.envoy.extensions.access_loggers.file.v3 import FileAccessLog
from envoy_data_plane.envoy.extensions.filters.http.router.v3 import Router
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager.v3 import (
    HttpConnectionManager,
    HttpFilter,
)
from envoy_data_plane.envoy.extensions.upstreams.http.v3 import HttpProtocolOptions as Upstream
from envoy_data_plane.envoy.extensions.upstreams.http.v3 import (
    HttpProtocolOptionsExplicitHttpConfig as Explicit,
)
from envoy_data_plane.google.protobuf import Struct

from extproc.config.mesh import HostModel, is_ip, split
from extproc.mesh.render.messages import (
    NAMESPACE,
    address,
    metadata,
    packed,
    seconds,
)
from extproc.mesh.render.plan import Plan, Tier
from extproc.mesh.render.sidecar import UPSTREAM_OPTIONS, ask_health, asked, ext_proc, wide
from extproc.mesh.render.versions import Feature, Version

_LOG = {
    "tier": "unit",
    "time": "%START_TIME%",
    "request_id": "%REQ(X-REQUEST-ID)%",
    "attempt": "%REQ(X-ENVOY-ATTEMPT-COUNT)%",
    **{
        name: f"%DYNAMIC_METADATA({NAMESPACE}:{name})%"
        for name in ("unit", "release", "class", "state", "verdict", "findings", "marked")
    },
    "cluster": "%UPSTREAM_CLUSTER%",
    "host": "%UPSTREAM_HOST%",
    "code": "%RESPONSE_CODE%",
    "flags": "%RESPONSE_FLAGS%",
    "bytes_out": "%BYTES_SENT%",
    "milliseconds": "%DURATION%",
}


def access_log(fields: dict[str, str]) -> AccessLog:
    """Lines of JSON on standard output."""
    form = SubstitutionFormatString(json_format=Struct.from_dict(fields))
    config = FileAccessLog(path="/dev/stdout", log_format=form)
    return AccessLog(name="envoy.access_loggers.file", typed_config=packed(config))


def router() -> HttpFilter:
    """The last filter of every chain."""
    return HttpFilter(name="envoy.filters.http.router", typed_config=packed(Router()))


def listener(made: Plan, tier: Tier, version: Version) -> Listener:
    """The unit's internal listener: reads the answers, then balances over the hosts."""
    action = RouteAction(cluster=tier.cluster, timeout=seconds(0))
    host = VirtualHost(
        name="unit", domains=["*"], routes=[Route(match=RouteMatch(prefix="/"), route=action)]
    )
    manager = HttpConnectionManager(
        stat_prefix=tier.listener,
        stream_idle_timeout=seconds(300),
        generate_request_id=False,
        access_log=[access_log(_LOG)],
        route_config=RouteConfiguration(name=tier.listener, virtual_hosts=[host]),
        http_filters=[
            HttpFilter(
                name="envoy.filters.http.ext_proc", typed_config=packed(ext_proc(made, version))
            ),
            router(),
        ],
    )
    return Listener(
        name=tier.listener,
        internal_listener=ListenerInternalListenerConfig(),
        filter_chains=[FilterChain(filters=[network_filter(manager)])],
    )


def network_filter(manager: HttpConnectionManager) -> Filter:
    return Filter(
        name="envoy.filters.network.http_connection_manager", typed_config=packed(manager)
    )


def cluster(made: Plan, tier: Tier, version: Version) -> Cluster:
    """The hosts of a unit."""
    named = [host for host in tier.hosts if not is_ip(split(host.address)[0])]
    per_host = made.settings.mesh.eject and not named
    result = Cluster(
        name=tier.cluster,
        type=ClusterDiscoveryType.STRICT_DNS if named else ClusterDiscoveryType.STATIC,
        connect_timeout=seconds(1),
        metadata=metadata(unit=tier.id, release=tier.unit.release),
        circuit_breakers=wide(),
        load_assignment=ClusterLoadAssignment(
            cluster_name=tier.cluster,
            endpoints=[
                LocalityLbEndpoints(
                    lb_endpoints=[_host(made, tier, host, per_host, version) for host in tier.hosts]
                )
            ],
        ),
        ignore_health_on_host_removal=True,
        typed_extension_protocol_options={
            UPSTREAM_OPTIONS: packed(
                Upstream(
                    common_http_protocol_options=HttpProtocolOptions(max_requests_per_connection=1),
                    explicit_http_config=Explicit(http_protocol_options=Http1ProtocolOptions()),
                )
            )
        },
    )
    if per_host:
        ask_health(made, result)
    return result


def _host(made: Plan, tier: Tier, host: HostModel, per_host: bool, version: Version) -> LbEndpoint:
    endpoint = Endpoint(address=address(host.address))
    # A name stands for many hosts; what is said of them all would be said of none.
    name = "" if not is_ip(split(host.address)[0]) else host.name or host.address
    if per_host:
        endpoint.health_check_config = asked(made, f"{tier.id}@{name}")
    said = {"host": name, "release": host.release}
    if not version.has(Feature.CLUSTER_METADATA):
        said |= {"unit": tier.id, "release": host.release or tier.unit.release}
    return LbEndpoint(endpoint=endpoint, metadata=metadata(**said) if any(said.values()) else None)
