"""Envoy Gateway: an EnvoyPatchPolicy for two tiers, an EnvoyExtensionPolicy for copies only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from envoy_data_plane.envoy.config.cluster.v3 import Cluster
from envoy_data_plane.envoy.config.core.v3 import TypedExtensionConfig
from envoy_data_plane.envoy.config.listener.v3 import Listener
from envoy_data_plane.envoy.extensions.bootstrap.internal_listener.v3 import InternalListener

from extproc.config.mesh import split
from extproc.mesh.render import front, sidecar, unit
from extproc.mesh.render.manifests import document, heading, title
from extproc.mesh.render.messages import (
    INTERNAL_LISTENER,
    MARKER,
    NAMESPACE,
    Tree,
    packed,
    tree,
)
from extproc.mesh.render.plan import Front, Plan, RenderError, Tier, place_of_unit
from extproc.mesh.render.versions import Version
from extproc.mesh.render.yaml import Notes, dump

_ALLOWED = re.compile(
    r"(connection\.|source\.|destination\.|request\.|response\.|upstream\.|xds\.route_)[a-z_1-9]*"
)
"""Attributes that EnvoyExtensionPolicy takes; its CRD has this pattern."""

_API = "gateway.envoyproxy.io/v1alpha1"
_GATEWAY = "gateway.networking.k8s.io"
_TYPES = "type.googleapis.com/envoy.config"
_LISTENER = f"{_TYPES}.listener.v3.Listener"
_CLUSTER = f"{_TYPES}.cluster.v3.Cluster"
_ROUTES = f"{_TYPES}.route.v3.RouteConfiguration"


def files(made: Plan, version: Version) -> dict[str, str]:
    """``envoypatchpolicy.yaml`` and ``envoyproxy.yaml``; to observe,
    ``envoyextensionpolicy.yaml``. Raises ``RenderError``."""
    problems = list(_problems(made))
    if problems:
        raise RenderError(problems)
    if made.observe:
        made.warn(
            "observe mode of Envoy Gateway knows no unit health: EnvoyExtensionPolicy cannot send "
            "health checks to the sidecar; nothing is moved away in this mode"
        )
        if made.settings.grpc.address.startswith(("127.", "localhost", "[::1]", "unix:")):
            made.warn(
                f"grpc.address is {made.settings.grpc.address}: no Service reaches it; in observe "
                'mode of Envoy Gateway write ":18080"'
            )
        return {"envoyextensionpolicy.yaml": document(_watching(made, version), _copies(made))}
    return {
        "envoypatchpolicy.yaml": document(_heading(made, version), _policy(made, version)),
        "envoyproxy.yaml": document(
            title(
                "envoy-gateway",
                "Internal listeners want this extension in Envoy's bootstrap. Name it in "
                "spec.parametersRef of your GatewayClass (or spec.infrastructure of the Gateway); "
                "if you have an EnvoyProxy, give it this bootstrap.",
            ),
            _proxy(made),
        ),
    }


def _problems(made: Plan) -> Iterator[tuple[str, str]]:
    for at, entry in enumerate(made.fronts):
        if entry.route.route.count("/") != 1 or entry.route.route.startswith("/"):
            yield (
                f"mesh.routes[{at}].route",
                'is missing or has no namespace: write "namespace/name" of your HTTPRoute',
            )
    if made.observe:
        if not made.settings.trusted_headers.unit:
            yield (
                "trusted_headers.unit",
                "is missing: EnvoyExtensionPolicy tells the sidecar no cluster, so each backendRef "
                "must say its unit in a response header (ResponseHeaderModifier, set); name it",
            )
        return
    for tier in made.tiers:
        if not tier.hosts and not tier.unit.clusters:
            yield (
                place_of_unit(made, tier),
                f"unit {tier.id!r} has neither `clusters` nor `hosts`; name Envoy Gateway's "
                "cluster, such as httproute/llm/unit-a/rule/0",
            )


def _policy(made: Plan, version: Version) -> Tree:
    gateway = made.settings.mesh.envoy_gateway
    patches: list[Tree] = []
    for tier in made.tiers:
        patches.append(_added(_LISTENER, unit.listener(made, tier, version)))
    patches += [_added(_CLUSTER, front.cluster(made, entry)) for entry in made.fronts]
    if made.shadow is not None:
        patches.append(_added(_CLUSTER, front.shadow(made.shadow)))
    patches += [
        _added(_CLUSTER, unit.cluster(made, tier, version)) if tier.hosts else _named(tier)
        for tier in made.tiers
    ]
    patches.append(_added(_CLUSTER, sidecar.cluster(made)))
    routes = f"{gateway.namespace}/{gateway.gateway}/{gateway.listener}"
    patches.append(
        _patch(_ROUTES, routes, "/include_request_attempt_count", True, "..virtual_hosts[*]")
    )
    for entry in made.fronts:
        patches += _led(made, entry, routes)
    return {
        "apiVersion": _API,
        "kind": "EnvoyPatchPolicy",
        "metadata": {"name": "semantic-extproc", "namespace": gateway.namespace},
        "spec": {
            "targetRef": {"group": _GATEWAY, "kind": "Gateway", "name": gateway.gateway},
            "type": "JSONPatch",
            "jsonPatches": patches,
        },
    }


def _patch(kind: str, name: str, path: str, value: Any, json_path: str = "") -> Tree:
    where = {"jsonPath": json_path} if json_path else {}
    return {
        "type": kind,
        "name": name,
        "operation": {"op": "add", **where, "path": path, "value": value},
    }


def _added(kind: str, resource: Listener | Cluster) -> Tree:
    """An empty path adds a whole resource."""
    return _patch(kind, resource.name, "", tree(resource))


def _named(tier: Tier) -> Tree:
    said = {"unit": tier.id} | ({"release": tier.unit.release} if tier.unit.release else {})
    return _patch(_CLUSTER, tier.cluster, f"/metadata/filter_metadata/{NAMESPACE}", said)


def _led(made: Plan, entry: Front, routes: str) -> Iterator[Tree]:
    """The HTTPRoute's routes lead to the units."""
    name = f"httproute/{entry.route.route}/rule/"
    match = f"..routes[?(@.name=~'^{name}')]"
    action = tree(front.action(made, entry))
    values: Tree = {
        "request_body_buffer_limit": front.BUFFER,
        "request_headers_to_remove": front.OURS,
        "response_headers_to_remove": [MARKER],
        **{f"route/{field}": value for field, value in action.items()},
    }
    for path, value in values.items():
        # "-" appends: a list may be there already. Envoy Gateway makes it where it is not.
        if isinstance(value, list):
            for item in value:
                yield _patch(_ROUTES, routes, f"/{path}/-", item, match)
        else:
            yield _patch(_ROUTES, routes, f"/{path}", value, match)


def _proxy(made: Plan) -> Tree:
    extension = TypedExtensionConfig(
        name=INTERNAL_LISTENER, typed_config=packed(InternalListener())
    )
    bootstrap = dump({"bootstrap_extensions": [tree(extension)]}, Notes({}))
    return {
        "apiVersion": _API,
        "kind": "EnvoyProxy",
        "metadata": {
            "name": "semantic-extproc",
            "namespace": made.settings.mesh.envoy_gateway.namespace,
        },
        "spec": {"bootstrap": {"type": "Merge", "value": bootstrap}},
    }


def _copies(made: Plan) -> Tree:
    gateway = made.settings.mesh.envoy_gateway
    shown = made.settings.mesh.requests == "shown"
    clients = filter(_ALLOWED.fullmatch, made.settings.sampling.client_attributes)
    attributes = ["request.id", "request.path", "request.size", "upstream.address", *clients]
    processing: Tree = {"response": {"body": "Streamed", "attributes": attributes}}
    if shown:
        processing["request"] = {"body": "Streamed"}
    port = split(made.addresses[0])[1] if not made.addresses[0].startswith("unix:") else 18080
    names = [entry.route.route.partition("/")[2] for entry in made.fronts]
    return {
        "apiVersion": _API,
        "kind": "EnvoyExtensionPolicy",
        "metadata": {
            "name": "semantic-extproc",
            "namespace": made.fronts[0].route.route.partition("/")[0],
        },
        "spec": {
            "targetRefs": [
                {"group": _GATEWAY, "kind": "HTTPRoute", "name": name}
                for name in dict.fromkeys(names)
            ],
            "extProc": [
                {
                    "backendRefs": [
                        {"name": gateway.service, "port": port, "namespace": gateway.namespace}
                    ],
                    "failOpen": True,
                    "shadowMode": True,
                    "messageTimeout": "1s",
                    "metadata": {"writableNamespaces": [NAMESPACE]},
                    "processingMode": processing,
                    "backendSettings": {
                        "circuitBreaker": {
                            "maxConnections": sidecar.MANY,
                            "maxParallelRequests": sidecar.MANY,
                            "maxPendingRequests": sidecar.MANY,
                        }
                    },
                }
            ],
        },
    }


def _heading(made: Plan, version: Version) -> str:
    gateway = made.settings.mesh.envoy_gateway
    return heading(
        made,
        version,
        "envoy-gateway",
        "What it adds to the Gateway's Envoys: an internal listener a unit, a cluster whose hosts "
        "are the units, the sidecar's cluster; and your HTTPRoute is led there. Envoy Gateway's "
        "own clusters serve as before, behind the internal listeners.",
        "",
        "Patches are off by default. In the EnvoyGateway configuration:",
        "",
        "  extensionApis: {enableEnvoyPatchPolicy: true}",
        "",
        "and envoyproxy.yaml must be in force. Then",
        "",
        f"  kubectl get envoypatchpolicy -n {gateway.namespace} semantic-extproc -o yaml",
        "",
        "says Programmed: True, or which resource it could not find.",
    )


def _watching(made: Plan, version: Version) -> str:
    header = made.settings.trusted_headers.unit
    example = made.fronts[0].tiers[0].id
    return heading(
        made,
        version,
        "envoy-gateway",
        "EnvoyExtensionPolicy tells the sidecar no cluster. So let each backendRef of the "
        "HTTPRoute say its unit:",
        "",
        "  filters:",
        "  - type: ResponseHeaderModifier",
        f"    responseHeaderModifier: {{set: [{{name: {header}, value: {example}}}]}}",
        "",
        "If the sidecar's Service is in another namespace, allow it with a ReferenceGrant.",
    )
