"""Is the filter where the answers pass?"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import indent

from extproc.mesh.audit.finding import Hit, Severity, Theme
from extproc.mesh.audit.gather import is_processor
from extproc.mesh.audit.node import Node
from extproc.mesh.audit.reach import Mesh
from extproc.mesh.audit.world import ROUTER

THEME = Theme("The filter's place")

ATTRIBUTES = """
response_attributes:
- xds.cluster_name
- xds.upstream_host_metadata
- upstream.address
- request.id
- request.path
- request.size
- "request.headers['x-envoy-attempt-count']"
"""

FILTER = f"""
- name: envoy.filters.http.ext_proc
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor
    grpc_service: {{envoy_grpc: {{cluster_name: semantic_extproc}}}}
    failure_mode_allow: true
    message_timeout: 1s
    max_message_timeout: 60s
    send_body_without_waiting_for_header_response: true
    processing_mode:
      request_header_mode: SKIP
      response_header_mode: SEND
      response_body_mode: STREAMED
    mutation_rules: {{disallow_all: true, allow_expression: {{regex: "x-semantic-.*"}}}}
{indent(ATTRIBUTES.strip(), "    ")}
    metadata_options:
      cluster_metadata_forwarding_namespaces: {{untyped: [semantic.extproc]}}
      receiving_namespaces: {{untyped: [semantic.extproc]}}
"""

DETOUR = """
# the front's cluster, whose hosts are the units' internal listeners
route: {cluster: llm}
"""


@THEME.check(
    "filter-missing",
    Severity.ERROR,
    "no ext_proc filter of the sidecar's",
    "Nothing reads the answers: HTTP 200 with garbage stays healthy for ever.",
    FILTER,
)
def filter_missing(mesh: Mesh) -> Iterator[Hit]:
    if mesh.filters or not mesh.world.managers:
        return
    places = [
        manager
        for manager in mesh.world.managers
        if manager.routes or (mesh.world.whole and not manager.routed)
    ]
    for manager in places[:1]:
        yield Hit(manager.node["http_filters"], manager.of)


@THEME.check(
    "filter-not-attached",
    Severity.ERROR,
    "a route reaches a unit past the filter",
    "A sidecar that is well while its filter is not on the way is the commonest fault: what this "
    "route answers is never read, and counts neither for nor against the unit.",
    FILTER,
)
def filter_not_attached(mesh: Mesh) -> Iterator[Hit]:
    if not mesh.filters:
        return
    read = {way.cluster.name for way in mesh.inspected}
    for way in mesh.ways:
        if way.guards or way.off or way.cluster.name not in mesh.units:
            continue
        if way.mirrored:
            continue  # a check of its own
        leg = way.legs[-1]
        said = f"{leg.route.of} sends to cluster {way.cluster.name} with no ext_proc filter"
        if way.cluster.name in read:  # there is a way with the filter: this one leads past it
            at = leg.target.node["name" if leg.target.weighted else "cluster"]
            yield Hit(at, f"{leg.route.of}, {leg.manager.of}", said, fix=DETOUR)
            continue
        yield Hit(leg.manager.node["http_filters"], leg.manager.of, said)


@THEME.check(
    "filter-after-router",
    Severity.ERROR,
    "the filter stands behind the router",
    "The router is the last filter of a chain, and Envoy refuses a chain that goes on (terminal "
    "filter must be the last). One that a control plane sends is rejected as a whole: Envoy keeps "
    "the chain it had, without the filter.",
    "# list envoy.filters.http.ext_proc before envoy.filters.http.router (EnvoyFilter: "
    "INSERT_BEFORE)",
)
def filter_after_router(mesh: Mesh) -> Iterator[Hit]:
    for entry, manager, _ in mesh.filters:
        if manager is None:
            continue
        chain = [other.node.path for other in manager.filters]
        routers = [other.node.path for other in manager.filters if other.type.endswith(ROUTER)]
        place = chain.index(entry.node.path) if entry.node.path in chain else -1
        if entry.after_router or (routers and place > chain.index(routers[0])):
            yield Hit(entry.node, manager.of)


@THEME.check(
    "filter-disabled",
    Severity.ERROR,
    "the filter is switched off on a route that reaches a unit",
    "Envoy skips a filter that is disabled for a route and counts nothing: this traffic is unread.",
    "# remove the override, or:\ntyped_per_filter_config: {}",
)
def filter_disabled(mesh: Mesh) -> Iterator[Hit]:
    for way in mesh.ways:
        for leg, entry, said in way.off:
            if way.guards:
                continue  # another instance reads it
            at = said.node or entry.node["disabled"]
            yield Hit(at, f"{leg.route.of}, {leg.manager.of}", f"{entry.name} does not run here")


@THEME.check(
    "filter-sampled",
    Severity.WARNING,
    "a matcher decides whether the filter runs",
    "What the matcher leaves out (by header, or by a runtime fraction) is unread and nowhere "
    "counted. The sidecar can sample by itself, for each unit, host and context class alike.",
    "# the filter without ExtensionWithMatcher; in extproc.yaml:\nsampling: {share: 0.2}",
)
def filter_sampled(mesh: Mesh) -> Iterator[Hit]:
    for entry, manager, cluster in mesh.filters:
        if entry.matched:
            of = manager.of if manager else cluster.of if cluster else ""
            yield Hit(entry.node["typed_config"], of)


@THEME.check(
    "route-sampled",
    Severity.WARNING,
    "a runtime fraction splits traffic between read and unread",
    "Only the sampled part passes the filter; the rest takes the next matching route. The sidecar "
    "can sample by itself, for each unit, host and context class alike.",
    "# the route without match.runtime_fraction; in extproc.yaml:\nsampling: {share: 0.2}",
)
def route_sampled(mesh: Mesh) -> Iterator[Hit]:
    unread = {
        id(leg.manager)
        for way in mesh.ways
        if not way.guards and not way.mirrored and way.cluster.name in mesh.units
        for leg in way.legs
    }
    for way in mesh.inspected:
        for leg in way.legs:
            fraction = leg.route.node.at("match", "runtime_fraction")
            if fraction and id(leg.manager) in unread and not leg.mirrored:
                yield Hit(fraction, leg.route.of)


@THEME.check(
    "upstream-chain-crash",
    Severity.ERROR,
    "ext_proc in an upstream filter chain, not in observability mode",
    "Envoy 1.36 to 1.40 crash (SIGSEGV) there: on one 100 KB JSON answer with headers held, under "
    "60 concurrent 200 KB answers in STREAMED and BUFFERED. It never did downstream, nor in "
    "observability mode.",
    "# move the filter into an internal listener of the unit (two tiers), or:\n"
    "observability_mode: true\nfailure_mode_allow: true",
)
def upstream_chain_crash(mesh: Mesh) -> Iterator[Hit]:
    for guard in mesh.guards:
        if guard.upstream and not guard.observes:
            yield Hit(guard.filter.node, guard.of)


@THEME.check(
    "upstream-local-reply",
    Severity.WARNING,
    "an immediate response of an upstream filter is not retried",
    "A local reply that ext_proc makes in the upstream chain goes to the client as it is: no retry "
    "policy sees it. From an internal listener it is an ordinary response of that unit.",
    "disable_immediate_response: true",
)
def upstream_local_reply(mesh: Mesh) -> Iterator[Hit]:
    for guard in mesh.guards:
        if guard.upstream and not guard.observes and not guard["disable_immediate_response"].flag():
            yield Hit(guard.filter.config["disable_immediate_response"], guard.of)


@THEME.check(
    "aggregate-member-filters",
    Severity.ERROR,
    "filters on a member of an aggregate cluster",
    "Envoy reads HttpProtocolOptions from the aggregate only; on the member they are silently "
    "ignored (measured: 0 ext_proc streams).",
    "# move http_filters into typed_extension_protocol_options of the aggregate cluster",
)
def aggregate_member_filters(mesh: Mesh) -> Iterator[Hit]:
    for cluster in mesh.world.clusters.values():
        for name in cluster.aggregate:
            member = mesh.world.cluster(name)
            if member is not None and any(is_processor(entry) for entry in member.filters):
                said = f"cluster {name} is a member of the aggregate {cluster.name}"
                yield Hit(member.options["http_filters"], member.of, said)


@THEME.check(
    "aggregate-member-error-matcher",
    Severity.ERROR,
    "an error_matcher on a member of an aggregate cluster",
    "Envoy reads HttpProtocolOptions from the aggregate only: with the matcher on the member, "
    "marked answers do not count there. The outlier_detection itself stays on the members.",
    "# move outlier_detection.error_matcher into HttpProtocolOptions of the aggregate cluster",
)
def aggregate_member_error_matcher(mesh: Mesh) -> Iterator[Hit]:
    for cluster in mesh.world.clusters.values():
        if cluster.options.at("outlier_detection", "error_matcher"):
            continue
        for name in cluster.aggregate:
            member = mesh.world.cluster(name)
            if member is None:
                continue
            at = member.options.at("outlier_detection", "error_matcher")
            if at:
                yield Hit(at, member.of, f"cluster {name} is a member of {cluster.name}")


@THEME.check(
    "compressor-before-ext-proc",
    Severity.WARNING,
    "a compressor stands between the engine and the filter",
    "Answers pass filters from the last to the first, so a compressor listed after ext_proc packs "
    "them before they are read. The sidecar unpacks gzip, br and zstd, at a cost, and a "
    "compressor's buffer makes tokens arrive late and in lumps.",
    "# list envoy.filters.http.compressor before envoy.filters.http.ext_proc",
)
def compressor_before_ext_proc(mesh: Mesh) -> Iterator[Hit]:
    for way in mesh.inspected:
        for at, guard in way.guards:
            for number, leg in enumerate(way.legs[at:]):
                chain = leg.manager.filters
                if number == 0 and not guard.upstream:
                    paths = [entry.node.path for entry in chain]
                    chain = chain[paths.index(guard.filter.node.path) + 1 :]
                elif number == 0:
                    continue
                for entry in chain:
                    if entry.type.endswith("compressor.v3.Compressor") and not entry.disabled:
                        yield Hit(entry.node, leg.manager.of)
            for entry in way.cluster.filters:
                if entry.type.endswith("compressor.v3.Compressor"):
                    yield Hit(entry.node, way.cluster.of)


@THEME.check(
    "buffer-filter",
    Severity.WARNING,
    "a buffer filter on the way to a unit",
    "It keeps whole bodies: a prompt above max_request_bytes gets 413, a buffered answer no longer "
    "streams, and the filter sees it only at its end.",
    "# remove envoy.filters.http.buffer; the retry has a buffer of its own "
    "(request_body_buffer_limit)",
)
def buffer_filter(mesh: Mesh) -> Iterator[Hit]:
    kinds = ("buffer.v3.Buffer", "file_system_buffer.v3.FileSystemBufferFilterConfig")
    for way in mesh.inspected:
        for leg in way.legs:
            for entry in leg.manager.filters:
                if entry.type.endswith(kinds) and not entry.disabled:
                    yield Hit(entry.node, leg.manager.of)


@THEME.check(
    "internal-listener-extension",
    Severity.ERROR,
    "internal listeners without their bootstrap extension",
    "Envoy refuses internal listeners without it.",
    """
bootstrap_extensions:
- name: envoy.bootstrap.internal_listener
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.bootstrap.internal_listener.v3.InternalListener
""",
)
def internal_listener_extension(mesh: Mesh) -> Iterator[Hit]:
    bootstrap = mesh.world.bootstrap
    if not bootstrap or not mesh.world.listeners:
        return
    extensions = bootstrap["bootstrap_extensions"]
    kinds = [entry["typed_config"].type() for entry in extensions.items()]
    if not any(kind.endswith("internal_listener.v3.InternalListener") for kind in kinds):
        yield Hit(_place(extensions, "bootstrap_extensions"))


def _place(node: Node, name: str) -> Node:
    return node if node.path else Node(None, name)


@THEME.check(
    "listener-unknown",
    Severity.ERROR,
    "a host names an internal listener that is not there",
    "Every request to it is a 503 held against the unit.",
    "# name a listener that has internal_listener: {}",
)
def listener_unknown(mesh: Mesh) -> Iterator[Hit]:
    if not mesh.world.whole:
        return
    for cluster in mesh.world.clusters.values():
        for host in cluster.endpoints:
            if host.listener and host.listener not in mesh.world.listeners:
                at = host.node.at("endpoint", "address", "envoy_internal_address")
                yield Hit(at["server_listener_name"], cluster.of, f"{host.listener} is no listener")


@THEME.check(
    "cluster-unknown",
    Severity.ERROR,
    "a route to a cluster that is not there",
    "Its share of the requests gets 503, and what was to be protected does not run.",
    "# name a cluster that exists",
)
def cluster_unknown(mesh: Mesh) -> Iterator[Hit]:
    if not mesh.world.whole:
        return
    for manager in mesh.world.managers:
        for route in manager.routes:
            for target in (*route.targets, *route.mirrors):
                if mesh.world.cluster(target.cluster) is None:
                    at = target.node["name" if target.weighted else "cluster"]
                    yield Hit(at, route.of, f"{target.cluster} is no cluster")
