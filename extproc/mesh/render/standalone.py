"""A whole configuration for an Envoy of one's own."""

from __future__ import annotations

from envoy_data_plane.envoy.config.bootstrap.v3 import (
    Admin,
    Bootstrap,
    BootstrapStaticResources,
    LayeredRuntime,
    RuntimeLayer,
    RuntimeLayerAdminLayer,
)
from envoy_data_plane.envoy.config.core.v3 import TypedExtensionConfig
from envoy_data_plane.envoy.config.listener.v3 import FilterChain, Listener
from envoy_data_plane.envoy.config.route.v3 import (
    Route,
    RouteConfiguration,
    RouteMatch,
    VirtualHost,
)
from envoy_data_plane.envoy.extensions.bootstrap.internal_listener.v3 import InternalListener
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager.v3 import (
    HttpConnectionManager,
)

from extproc.mesh.render import front, sidecar, unit
from extproc.mesh.render.manifests import heading
from extproc.mesh.render.messages import INTERNAL_LISTENER, MARKER, address, packed, seconds, tree
from extproc.mesh.render.plan import SIDECAR, Front, Plan, RenderError, Tier, place_of_unit
from extproc.mesh.render.versions import Version
from extproc.mesh.render.why import METADATA, WHY
from extproc.mesh.render.yaml import Notes, comment, dump

_LOG = {
    "tier": "front",
    "time": "%START_TIME%",
    "request_id": "%REQ(X-REQUEST-ID)%",
    "trace": "%REQ(TRACEPARENT)%",
    "method": "%REQ(:METHOD)%",
    "path": "%PATH(NQ):128%",  # without its query: that may hold a key
    "code": "%RESPONSE_CODE%",
    "flags": "%RESPONSE_FLAGS%",
    "attempts": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
    "unit": "%RESP(X-SEMANTIC-UNIT)%",
    "release": "%RESP(X-SEMANTIC-RELEASE)%",
    "state": "%RESP(X-SEMANTIC-STATE)%",
    "bytes_in": "%BYTES_RECEIVED%",
    "bytes_out": "%BYTES_SENT%",
    "milliseconds": "%DURATION%",
}


def files(made: Plan, version: Version) -> dict[str, str]:
    """``envoy.yaml``. Raises ``RenderError``."""
    missing = [
        (
            place_of_unit(made, tier),
            f"unit {tier.id!r} has no `hosts`; a standalone Envoy must be told where it runs",
        )
        for tier in made.tiers
        if not tier.hosts
    ]
    if missing:
        raise RenderError(missing)
    heading_lines = "\n".join(comment(_heading(made, version)))
    notes = Notes({**WHY, **_sections(made)})
    return {"envoy.yaml": f"{heading_lines}\n\n{dump(tree(bootstrap(made, version)), notes)}"}


def bootstrap(made: Plan, version: Version) -> Bootstrap:
    """The configuration as a message."""
    shadows = [] if made.shadow is None else [front.shadow(made.shadow)]
    return Bootstrap(
        static_resources=BootstrapStaticResources(
            listeners=[
                _listener(made),
                *(unit.listener(made, tier, version) for tier in made.tiers),
            ],
            clusters=[
                *(front.cluster(made, entry) for entry in made.fronts),
                *shadows,
                *(unit.cluster(made, tier, version) for tier in made.tiers),
                sidecar.cluster(made),
            ],
        ),
        layered_runtime=LayeredRuntime(
            layers=[RuntimeLayer(name="admin", admin_layer=RuntimeLayerAdminLayer())]
        ),
        admin=Admin(address=address(made.settings.mesh.envoy_admin)),
        bootstrap_extensions=[
            TypedExtensionConfig(name=INTERNAL_LISTENER, typed_config=packed(InternalListener()))
        ],
    )


def _listener(made: Plan) -> Listener:
    manager = HttpConnectionManager(
        stat_prefix="front",
        route_config=RouteConfiguration(name="front", virtual_hosts=_hosts(made)),
        http_filters=[unit.router()],
        stream_idle_timeout=seconds(300),
        access_log=[unit.access_log(_LOG)],
        use_remote_address=True,
    )
    return Listener(
        name="front",
        address=address(made.settings.mesh.listen),
        filter_chains=[FilterChain(filters=[unit.network_filter(manager)])],
    )


def _hosts(made: Plan) -> list[VirtualHost]:
    """Routes with the same domains share a virtual host, longer prefixes first."""
    groups: dict[tuple[str, ...], list[Front]] = {}
    for entry in made.fronts:
        groups.setdefault(tuple(entry.route.domains), []).append(entry)
    return [
        VirtualHost(
            name=entries[0].cluster,
            domains=list(domains),
            routes=[
                Route(match=RouteMatch(prefix=entry.route.prefix), route=front.action(made, entry))
                for entry in sorted(entries, key=lambda entry: -len(entry.route.prefix))
            ],
            request_body_buffer_limit=front.BUFFER,
            include_request_attempt_count=True,
            request_headers_to_remove=front.OURS,
            response_headers_to_remove=[MARKER],
        )
        for domains, entries in groups.items()
    ]


def _sections(made: Plan) -> dict[str, str]:
    first = made.tiers[0]
    notes = {
        "listeners[front]": "---- Tier one: what clients talk to.",
        f"listeners[{first.listener}]": "---- Tier two: one internal listener a unit.",
        f"clusters[{first.cluster}]": "---- The hosts of each unit. The metadata tells the sidecar "
        "who answered.\nOne bad host among healthy siblings is drained alone. All of them out at "
        "once is the unit's fault, hence tier one's business: the default panic threshold then "
        "serves them here.",
        f"clusters[{first.cluster}].metadata": METADATA,
        f"clusters[{SIDECAR}]": "---- The sidecar. One stream an answer: the default "
        "circuit breaker, 1024, would let the rest pass unread.",
    }
    for entry in made.fronts:
        notes[f"clusters[{entry.cluster}]"] = (
            f"---- {_order(entry.tiers)}, as the front sees them: a unit is one host, its priority "
            "the place in the order (0, the first, is not written)."
        )
    return notes


def _order(tiers: tuple[Tier, ...]) -> str:
    return ", then ".join(tier.id for tier in tiers)


def _heading(made: Plan, version: Version) -> str:
    mesh = made.settings.mesh
    retries = "" if made.observe else ", retries on another unit"
    return heading(
        made,
        version,
        "standalone",
        f"    client -> {mesh.listen}  front listener{retries}",
        "                -> internal listener      one a unit; here the sidecar reads the answers",
        "                     -> the unit's hosts  balanced as usual",
        "",
        "Why two tiers: to the front listener a whole UNIT (model + engine + version + "
        "quantization + backend) is one host. So a retry, an ejection and a health check act on "
        "the unit, and a request never falls from one host to another that has the same fault.",
        "",
        "  Check: envoy --mode validate -c envoy.yaml     Run: envoy -c envoy.yaml --concurrency 2",
        "(two Envoys on one machine need --use-dynamic-base-id)",
    )
