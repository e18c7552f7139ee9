"""Do Envoy and the sidecar's own settings agree? Only with ``--config extproc.yaml``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from extproc.mesh.audit.checks.probing import asked_unit, asking
from extproc.mesh.audit.checks.processing import DEFAULT_MESSAGE_TIMEOUT
from extproc.mesh.audit.checks.sidecar import sidecar_clusters
from extproc.mesh.audit.finding import Function, Hit, Severity, Theme
from extproc.mesh.audit.guard import Guard
from extproc.mesh.audit.node import Node
from extproc.mesh.audit.reach import Mesh
from extproc.mesh.audit.world import BODY_MODES, MIB, Endpoint, own_metadata

if TYPE_CHECKING:
    from extproc.config import Settings

THEME = Theme("Envoy and extproc.yaml")


def with_settings(function: Callable[[Mesh, Settings], Iterator[Hit]]) -> Function:
    """A check of both sides; without extproc.yaml it finds nothing."""

    def check(mesh: Mesh) -> Iterator[Hit]:
        if mesh.world.settings is not None:
            yield from function(mesh, mesh.world.settings)

    return check


def holding_guards(mesh: Mesh, settings: Settings) -> Iterator[Guard]:
    """The guards that hold headers."""
    if settings.hold.enabled:
        for guard in mesh.guards:
            if guard.holds and guard.body == "STREAMED":
                yield guard


@THEME.check(
    "gap-over-message-timeout",
    Severity.ERROR,
    "hold.gap is not below message_timeout",
    "Envoy gives up waiting before the sidecar lets the headers go: a pause between tokens then "
    "ends reading and judging of that answer (ext_proc.message_timeouts).",
    "# Envoy:\nmessage_timeout: 1s\n# extproc.yaml:\nhold: {gap: 0.3}",
)
@with_settings
def gap_over_message_timeout(mesh: Mesh, settings: Settings) -> Iterator[Hit]:
    for guard in holding_guards(mesh, settings):
        at = guard["message_timeout"]
        seconds = at.seconds(DEFAULT_MESSAGE_TIMEOUT)
        if settings.hold.gap >= seconds:
            yield Hit(
                at, guard.of, f"hold.gap is {settings.hold.gap:g} s, message_timeout {seconds:g} s"
            )


@THEME.check(
    "patience-mismatch",
    Severity.ERROR,
    "hold.patience is more than max_message_timeout",
    "Envoy refuses a longer wait than max_message_timeout and goes on without the sidecar "
    "(ext_proc.override_message_timeout_ignored).",
    "# Envoy:\nmax_message_timeout: 60s\n# extproc.yaml:\nhold: {patience: 60}",
)
@with_settings
def patience_mismatch(mesh: Mesh, settings: Settings) -> Iterator[Hit]:
    for guard in holding_guards(mesh, settings):
        at = guard["max_message_timeout"]
        wanted, most = settings.hold.patience, at.seconds(0)
        if wanted > most:
            said = f"hold.patience is {wanted:g} s, max_message_timeout {most:g} s"
            yield Hit(at, guard.of, said)


@THEME.check(
    "patience-unused",
    Severity.WARNING,
    "Envoy would wait longer, and the sidecar does not ask",
    "hold.patience is 0, so a silence of hold.gap ends a hold although max_message_timeout allows "
    "more: with engines that send headers before they read the prompt, every hold ends unseen.",
    "hold: {patience: 60}   # extproc.yaml: as max_message_timeout",
)
@with_settings
def patience_unused(mesh: Mesh, settings: Settings) -> Iterator[Hit]:
    for guard in holding_guards(mesh, settings):
        at = guard["max_message_timeout"]
        more = at.seconds(0) > guard["message_timeout"].seconds(DEFAULT_MESSAGE_TIMEOUT)
        if settings.hold.patience == 0 and more:
            yield Hit(at, guard.of)


@THEME.check(
    "unit-unknown-to-sidecar",
    Severity.ERROR,
    "Envoy names a unit that extproc.yaml does not",
    "It is counted under that id, without fallback and never verified, so it can never be cut off "
    "hard.",
    "units:\n- id: unit-a   # as in the metadata of Envoy's cluster",
)
@with_settings
def unit_unknown_to_sidecar(mesh: Mesh, settings: Settings) -> Iterator[Hit]:
    if not settings.units:
        return
    ids = {unit.id for unit in settings.units}
    for cluster in mesh.units.values():
        for node in (cluster.node, *(host.node for host in cluster.endpoints)):
            at = own_metadata(node).key("unit")
            if at and at.text() not in ids:
                yield Hit(at, cluster.of, f"{at.text()} is none of {', '.join(sorted(ids))}")


@THEME.check(
    "unit-health-unknown-unit",
    Severity.ERROR,
    "the health check asks about a unit that extproc.yaml does not name",
    "A unit nobody knows is healthy: a quarantine never shows here.",
    "hostname: unit-a   # an id of extproc.yaml, unit#class or unit@host",
)
@with_settings
def unit_health_unknown_unit(mesh: Mesh, settings: Settings) -> Iterator[Hit]:
    if not settings.units:
        return
    ids = {unit.id for unit in settings.units}
    for cluster, _ in asking(mesh):
        for host in cluster.endpoints:
            at = host.health_check["hostname"]
            if at and asked_unit(at.text(), ids) not in ids:
                yield Hit(at, cluster.of, f"{at.text()} is none of {', '.join(sorted(ids))}")


@THEME.check(
    "cluster-unknown-to-envoy",
    Severity.WARNING,
    "extproc.yaml gives a unit clusters that Envoy does not have",
    "The entry never applies; a misspelt cluster's answers are charged to unknown.",
    "clusters: [unit_a]   # names of Envoy's clusters",
)
@with_settings
def cluster_unknown_to_envoy(mesh: Mesh, settings: Settings) -> Iterator[Hit]:
    if not mesh.world.whole:
        return
    for number, unit in enumerate(settings.units):
        for name in unit.clusters:
            if mesh.world.cluster(name) is None:
                yield Hit(
                    Node(None, f"extproc.yaml: units[{number}].clusters"),
                    "",
                    f"{name} is no cluster",
                )


@THEME.check(
    "unit-without-traffic",
    Severity.WARNING,
    "a unit of extproc.yaml is nowhere behind the filter",
    "Nothing it answers is read, so a fallback among such units helps nobody.",
    "# a priority of the front's cluster that leads to it",
)
@with_settings
def unit_without_traffic(mesh: Mesh, settings: Settings) -> Iterator[Hit]:
    if not mesh.world.whole or not mesh.inspected:
        return
    seen = {way.unit for way in mesh.inspected}
    seen |= {host.unit for way in mesh.inspected for host in way.cluster.endpoints}
    if any(not way.cluster.known_hosts for way in mesh.inspected):
        return
    for number, unit in enumerate(settings.units):
        if unit.id not in seen:
            yield Hit(Node(None, f"extproc.yaml: units[{number}]"), "", unit.id)


@THEME.check(
    "no-verified-fallback",
    Severity.WARNING,
    "a unit has no verified fallback",
    "It can only be marked as degraded, never cut off: while nothing verified may take its "
    "traffic, the sidecar does not send 503.",
    "units:\n- {id: unit-a, fallback: [unit-b]}\n- {id: unit-b, verified: true}",
)
@with_settings
def no_verified_fallback(mesh: Mesh, settings: Settings) -> Iterator[Hit]:
    if len(settings.units) < 2:
        return
    verified = {unit.id for unit in settings.units if unit.verified}
    fallbacks = {name for unit in settings.units for name in unit.fallback}
    serving = {way.unit for way in mesh.inspected if not way.mirrored}
    for number, unit in enumerate(settings.units):
        if unit.id in fallbacks and not unit.fallback:
            continue  # the last of the chain
        if serving and unit.id not in serving:
            continue  # a candidate that only gets copies
        if not set(unit.fallback) & verified:
            at = Node(None, f"extproc.yaml: units[{number}].fallback")
            yield Hit(at, "", f"{unit.id} falls back to {', '.join(unit.fallback) or 'nothing'}")


@THEME.check(
    "sidecar-address",
    Severity.WARNING,
    "the sidecar's cluster and grpc.address differ",
    "Every stream then fails to connect, and with failure_mode_allow every answer passes unread. "
    "(Right where a Service maps the port.)",
    "# the port of grpc.address in the endpoint of the sidecar's cluster",
)
@with_settings
def sidecar_address(mesh: Mesh, settings: Settings) -> Iterator[Hit]:
    listens = settings.grpc.address
    for cluster, _ in sidecar_clusters(mesh):
        hosts = cluster.endpoints
        if hosts and not any(_listens(host, listens) for host in hosts):
            labels = ", ".join(host.label for host in hosts)
            at = hosts[0].node.at("endpoint", "address")
            yield Hit(at, cluster.of, f"{labels}, grpc.address is {listens}")


def _listens(host: Endpoint, address: str) -> bool:
    """Whether a host could be what listens on ``address``; behind a Service names differ."""
    if address.startswith("unix:"):
        return host.address == address.removeprefix("unix://")
    return host.port == int(address.rpartition(":")[2])


@THEME.check(
    "worker-not-listed",
    Severity.WARNING,
    "a worker of the sidecar is no host of its cluster",
    "Each worker listens on an address of its own; what the cluster does not list gets no stream, "
    "and the others read all answers.",
    "# an endpoint for each worker: port + 10, + 20, ... (or a path with .1, .2, ...)",
)
@with_settings
def worker_not_listed(mesh: Mesh, settings: Settings) -> Iterator[Hit]:
    for cluster, _ in sidecar_clusters(mesh):
        hosts = cluster.endpoints
        if not any(_listens(host, settings.grpc.address) for host in hosts):
            continue  # another check's business, or a Service between
        for address in settings.server.addresses(settings.grpc.address):
            if not any(_listens(host, address) for host in hosts):
                yield Hit(cluster.node["load_assignment"], cluster.of, address)


@THEME.check(
    "unit-health-port",
    Severity.WARNING,
    "health checks and admin.address differ",
    "A check that cannot connect counts against unhealthy_threshold and never tells a quarantine. "
    "(Right where a Service maps the port.)",
    "# the port of admin.address in health_check_config.address",
)
@with_settings
def unit_health_port(mesh: Mesh, settings: Settings) -> Iterator[Hit]:
    port = int(settings.admin.address.rpartition(":")[2])
    for cluster, _ in asking(mesh):
        for host in cluster.endpoints:
            at = host.health_check.at("address", "socket_address", "port_value")
            if at and int(at.number(0)) != port:
                yield Hit(at, cluster.of, f"{at.number(0):g}, admin.address has {port}")


@THEME.check(
    "sidecar-tls",
    Severity.ERROR,
    "one side of Envoy and the sidecar speaks TLS, the other does not",
    "No stream is ever set up; with failure_mode_allow every answer passes unread.",
    "# a transport_socket with UpstreamTlsContext on the sidecar's cluster, exactly if grpc.tls "
    "is set",
)
@with_settings
def sidecar_tls(mesh: Mesh, settings: Settings) -> Iterator[Hit]:
    for cluster, _ in sidecar_clusters(mesh):
        at = cluster.node["transport_socket"]
        matches = cluster.node["transport_socket_matches"]
        if not matches and bool(at) != (settings.grpc.tls is not None):
            yield Hit(at, cluster.of, "grpc.tls is set" if not at else "grpc.tls is not set")


@THEME.check(
    "grpc-message-bytes",
    Severity.WARNING,
    "grpc.max_message_bytes is small",
    "A message over it ends the stream: with 4 MB, grpc's own default, a 20 MB chunk gave a 500.",
    "grpc: {max_message_bytes: 268435456}   # extproc.yaml",
)
@with_settings
def grpc_message_bytes(mesh: Mesh, settings: Settings) -> Iterator[Hit]:
    if settings.grpc.max_message_bytes < 32 * MIB:
        at = Node(None, "extproc.yaml: grpc.max_message_bytes")
        yield Hit(at, "", f"{settings.grpc.max_message_bytes} bytes")


@THEME.check(
    "terminate-without-immediate-response",
    Severity.WARNING,
    "late_verdict: terminate cannot end streams",
    "It ends a stream by an immediate response, which disable_immediate_response turns off; in "
    "observability mode there is none.",
    "disable_immediate_response: false",
)
@with_settings
def terminate_without_immediate_response(mesh: Mesh, settings: Settings) -> Iterator[Hit]:
    if settings.late_verdict != "terminate":
        return
    for guard in mesh.guards:
        if guard["disable_immediate_response"].flag() or guard.observes:
            name = "observability_mode" if guard.observes else "disable_immediate_response"
            yield Hit(guard[name], guard.of)


@THEME.check(
    "quarantine-share",
    Severity.WARNING,
    "health.max_quarantined allows no unit to be cut off",
    "The share is of all units; with a single one above it every quarantine stays soft.",
    "health: {max_quarantined: 0.5}   # extproc.yaml",
)
@with_settings
def quarantine_share(mesh: Mesh, settings: Settings) -> Iterator[Hit]:
    if len(settings.units) < 2:
        return
    if settings.health.max_quarantined * len(settings.units) < 1:
        at = Node(None, "extproc.yaml: health.max_quarantined")
        yield Hit(at, "", f"{settings.health.max_quarantined:g} of {len(settings.units)} units")


@THEME.check(
    "prompts-sent",
    Severity.WARNING,
    "prompts go to the sidecar although mesh.requests is hidden",
    "The filter sends request bodies. Whoever relies on extproc.yaml believes that they never "
    "leave Envoy.",
    "# Envoy:\nprocessing_mode: {request_body_mode: NONE, request_header_mode: SKIP}\n"
    "# or extproc.yaml:\nmesh: {requests: shown}",
)
@with_settings
def prompts_sent(mesh: Mesh, settings: Settings) -> Iterator[Hit]:
    for guard in mesh.guards:
        at = guard["processing_mode"]["request_body_mode"]
        if settings.mesh.requests == "hidden" and _sends(at):
            yield Hit(at, guard.of, at.text())


@THEME.check(
    "prompts-not-sent",
    Severity.WARNING,
    "mesh.requests is shown, and the filter sends no request",
    "What needs the request is not judged: a repetition that was asked for looks like a loop, and "
    "answers are not held against their JSON schema.",
    "processing_mode: {request_header_mode: SEND, request_body_mode: STREAMED}",
)
@with_settings
def prompts_not_sent(mesh: Mesh, settings: Settings) -> Iterator[Hit]:
    for guard in mesh.guards:
        at = guard["processing_mode"]["request_body_mode"]
        if settings.mesh.requests == "shown" and not _sends(at):
            yield Hit(at, guard.of)


def _sends(mode: Node) -> bool:
    return mode.choice(BODY_MODES) != "NONE"
