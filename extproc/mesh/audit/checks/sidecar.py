"""Is the sidecar's own cluster wide enough, reachable, and spoken to in its protocol?"""

from __future__ import annotations

from collections.abc import Iterator

from extproc.mesh.audit.finding import Hit, Severity, Theme
from extproc.mesh.audit.guard import Guard
from extproc.mesh.audit.reach import Mesh
from extproc.mesh.audit.world import MIB, Cluster, World

THEME = Theme("The sidecar's cluster")

DEFAULT_LIMIT = 1024
"""Envoy's default of max_connections, max_pending_requests and max_requests."""

LONG = 300.0
"""Seconds. A generation may well last minutes; none should be cut below this."""

WIDE = """
circuit_breakers:
  thresholds:
  - {max_connections: 100000, max_pending_requests: 100000, max_requests: 100000}
"""


def sidecar_clusters(mesh: Mesh) -> Iterator[tuple[Cluster, Guard]]:
    """The clusters that our filters talk to."""
    seen = set()
    for guard in mesh.guards:
        cluster = mesh.world.cluster(guard.sidecar)
        if cluster is not None and cluster.name not in seen:
            seen.add(cluster.name)
            yield cluster, guard


def limit(world: World, cluster: Cluster, name: str, default: float, priority: str) -> float:
    """A circuit breaker's limit, runtime considered."""
    key = f"circuit_breakers.{cluster.name}.{priority.lower()}.{name}"
    found = world.runtime_number(key)
    return cluster.thresholds(priority)[name].number(default) if found is None else found


@THEME.check(
    "sidecar-cluster-missing",
    Severity.ERROR,
    "the filter names a cluster that is not there",
    "No answer is read; with failure_mode_allow all pass, silently.",
    "# add the cluster, or name the right one in grpc_service.envoy_grpc.cluster_name",
)
def sidecar_cluster_missing(mesh: Mesh) -> Iterator[Hit]:
    for guard in mesh.guards:
        if guard["http_service"] or guard["grpc_service"]["google_grpc"]:
            continue
        at = guard["grpc_service"]["envoy_grpc"]["cluster_name"]
        if mesh.world.cluster(guard.sidecar) is not None:
            continue
        if mesh.world.whole:
            yield Hit(at, guard.of, f"{guard.sidecar or 'nothing'} is no cluster")
        elif _of_the_files(mesh.world, guard.sidecar):
            said = f"{guard.sidecar or 'nothing'} is no cluster of these files"
            yield Hit(at, guard.of, said, severity=Severity.WARNING)


def _of_the_files(world: World, name: str) -> bool:
    """Whether a cluster would have to be in the files: patches add some, and the name is none that
    a control plane makes from a Service (``outbound|80||host``, ``httproute/...``)."""
    adds = any(not cluster.partial for cluster in world.clusters.values())
    return adds and not world.bootstrap and not {"|", "/"} & set(name)


@THEME.check(
    "sidecar-circuit-breaker",
    Severity.ERROR,
    "the circuit breaker of the sidecar's cluster is too narrow",
    "Every answer in flight holds one gRPC stream. What exceeds max_requests (1024 by default) "
    "passes unread: at a limit of 5, 15 of 20 did (ext_proc.failure_mode_allowed: 15).",
    WIDE,
)
def sidecar_circuit_breaker(mesh: Mesh) -> Iterator[Hit]:
    for cluster, _ in sidecar_clusters(mesh):
        for name in ("max_requests", "max_pending_requests", "max_connections"):
            most = limit(mesh.world, cluster, name, DEFAULT_LIMIT, "DEFAULT")
            at = cluster.thresholds()[name]
            if name == "max_requests" and most <= DEFAULT_LIMIT:
                yield Hit(at, cluster.of, f"max_requests is {most:g}")
            elif name != "max_requests" and (
                most < 64 if name == "max_connections" else most < 1024
            ):
                yield Hit(at, cluster.of, f"{name} is {most:g}", severity=Severity.WARNING)


@THEME.check(
    "sidecar-not-http2",
    Severity.ERROR,
    "the sidecar's cluster does not speak HTTP/2",
    "gRPC needs it: every stream fails, and with failure_mode_allow every answer passes unread.",
    """
typed_extension_protocol_options:
  envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
    "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
    explicit_http_config: {http2_protocol_options: {}}
""",
)
def sidecar_not_http2(mesh: Mesh) -> Iterator[Hit]:
    for cluster, _ in sidecar_clusters(mesh):
        explicit = cluster.options["explicit_http_config"]
        if cluster.node["http2_protocol_options"] or explicit["http2_protocol_options"]:
            continue
        if cluster.options["auto_config"] and cluster.node["transport_socket"]:
            continue  # ALPN settles it
        yield Hit(explicit["http2_protocol_options"], cluster.of)


@THEME.check(
    "sidecar-ejectable",
    Severity.WARNING,
    "outlier detection may eject the sidecar",
    "Ended and refused streams count as its errors; while it is ejected every answer passes "
    "unread.",
    "# no outlier_detection on the sidecar's cluster",
)
def sidecar_ejectable(mesh: Mesh) -> Iterator[Hit]:
    for cluster, _ in sidecar_clusters(mesh):
        if cluster.node["outlier_detection"]:
            yield Hit(cluster.node["outlier_detection"], cluster.of)


@THEME.check(
    "sidecar-no-hosts",
    Severity.ERROR,
    "the sidecar's cluster has no host",
    "No answer is read; with failure_mode_allow all pass, silently.",
    "# give the cluster the address of the sidecar's gRPC server (grpc.address in extproc.yaml)",
)
def sidecar_no_hosts(mesh: Mesh) -> Iterator[Hit]:
    for cluster, _ in sidecar_clusters(mesh):
        if cluster.known_hosts and not cluster.endpoints and not cluster.members:
            yield Hit(cluster.node["load_assignment"], cluster.of)


@THEME.check(
    "grpc-receive-limit",
    Severity.WARNING,
    "gRPC messages between Envoy and the sidecar are limited",
    "A message over the limit ends the stream: with grpc-python's default of 4 MB a 20 MB chunk "
    "gave a 500.",
    "# Envoy: no max_receive_message_length; extproc.yaml:\ngrpc: {max_message_bytes: 268435456}",
)
def grpc_receive_limit(mesh: Mesh) -> Iterator[Hit]:
    for guard in mesh.guards:
        at = guard["grpc_service"]["envoy_grpc"]["max_receive_message_length"]
        if at and 0 < at.number(0) < 4 * MIB:
            yield Hit(at, guard.of, f"{at.number(0):g} bytes")


@THEME.check(
    "grpc-service-timeout",
    Severity.INFO,
    "grpc_service.timeout does not bound a stuck sidecar",
    "Measured: with a hung sidecar it changes nothing. message_timeout is what bounds each "
    "message.",
    "message_timeout: 1s",
)
def grpc_service_timeout(mesh: Mesh) -> Iterator[Hit]:
    for guard in mesh.guards:
        at = guard["grpc_service"]["timeout"]
        if at.seconds(0) > 0 and not guard["message_timeout"]:
            yield Hit(at, guard.of)


@THEME.check(
    "sidecar-stream-duration",
    Severity.ERROR,
    "a limit on the duration of streams ends the reading of answers",
    "Each answer is one gRPC stream for as long as it lasts. At a limit of 1 s an answer of 3 s "
    "was read for its first second: the rest passed unread, and no verdict came "
    "(ext_proc.streams_failed, failure_mode_allowed).",
    "# no max_stream_duration on the sidecar's cluster",
)
def sidecar_stream_duration(mesh: Mesh) -> Iterator[Hit]:
    for cluster, _ in sidecar_clusters(mesh):
        at = cluster.options.at("common_http_protocol_options", "max_stream_duration")
        if 0 < at.seconds(0) < LONG:
            severity = None if at.seconds(0) <= 60 else Severity.WARNING
            yield Hit(at, cluster.of, f"{at.seconds(0):g} s", severity=severity)


@THEME.check(
    "sidecar-health-check",
    Severity.WARNING,
    "the health check of the sidecar's cluster cannot pass",
    "A gRPC server does not answer an HTTP check, so every host counts as failed. With a panic "
    "threshold of 0 no answer is read any more; with the default all hosts are used alike, a dead "
    "worker among them.",
    "health_checks:\n- {timeout: 1s, interval: 1s, unhealthy_threshold: 1, healthy_threshold: 1, "
    "grpc_health_check: {}}",
)
def sidecar_health_check(mesh: Mesh) -> Iterator[Hit]:
    for cluster, _ in sidecar_clusters(mesh):
        elsewhere = [
            host.health_check["address"] or host.health_check["port_value"]
            for host in cluster.endpoints
        ]
        if all(elsewhere):
            continue  # the admin server is asked, or nothing is known
        panic = cluster.node.at("common_lb_config", "healthy_panic_threshold").number(50)
        for check in cluster.health_checks:
            severity = None if panic > 0 else Severity.ERROR
            yield Hit(check["http_health_check"], cluster.of, severity=severity)
