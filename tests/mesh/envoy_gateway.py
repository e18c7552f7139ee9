"""Applies an EnvoyPatchPolicy to what Envoy Gateway sends, as its translator does.

Read from its source (``internal/xds/translator/jsonpatch.go``): "add" without a path adds a whole
resource; otherwise the named resource is patched as JSON with the proto's own names, ``path``
below every match of ``jsonPath``; missing parents of an added value are made; what comes out is
parsed strictly.
"""

from __future__ import annotations

import copy
import re
from itertools import pairwise
from typing import Any

import jsonpatch
import jsonpath

from tests.mesh.protos import Bootstrap, Cluster, Listener, RouteConfiguration, parse, plain

_KINDS = {
    "type.googleapis.com/envoy.config.listener.v3.Listener": ("listeners", Listener),
    "type.googleapis.com/envoy.config.cluster.v3.Cluster": ("clusters", Cluster),
    "type.googleapis.com/envoy.config.route.v3.RouteConfiguration": ("routes", RouteConfiguration),
}


def patched(resources: dict[str, Any], policy: dict[str, Any]) -> dict[str, Any]:
    """``resources``: lists under listeners, clusters and routes. Raises ``AssertionError`` if a
    patch meets nothing."""
    result = {name: list(entries) for name, entries in resources.items()}
    for patch in policy["spec"]["jsonPatches"]:
        place, kind = _KINDS[patch["type"]]
        operation = patch["operation"]
        if operation["op"] == "add" and not operation["path"] and "jsonPath" not in operation:
            result[place].append(plain(parse(kind, operation["value"])))
            continue
        names = [entry["name"] for entry in result[place]]
        assert patch["name"] in names, f"no {place} {patch['name']}"
        at = names.index(patch["name"])
        result[place][at] = plain(parse(kind, _patched(result[place][at], operation)))
    return result


def _patched(resource: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any]:
    pointers = [""]
    if path := operation.get("jsonPath"):
        # ojg, which Envoy Gateway uses, spells RFC 9535's search() as =~.
        query = "$" + re.sub(r"\(@\.(\w+)=~'([^']*)'\)", r"search(@.\1, '\2')", path)
        pointers = [str(match.pointer()) for match in jsonpath.finditer(query, resource)]
        assert pointers, f"nothing matches {path}"
    for pointer in pointers:
        where = f"{pointer}/{operation['path'].lstrip('/')}"
        _make_parents(resource, where)
        change = {**operation, "path": where}
        change.pop("jsonPath", None)
        resource = jsonpatch.apply_patch(resource, [change])
    return resource


def _make_parents(resource: Any, pointer: str) -> None:
    parts = pointer.split("/")[1:]
    for part, following in pairwise(parts):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(resource, list):
            resource = resource[int(key)]
        else:
            # As evanphx/json-patch does: a list where an index or "-" follows.
            resource = resource.setdefault(key, [] if following == "-" else {})


def observed(
    resources: dict[str, Any], policy: dict[str, Any], addresses: list[str]
) -> dict[str, Any]:
    """``resources`` under an EnvoyExtensionPolicy with one extProc. As in the translator's own
    examples, the filter is off in the listener and on in the routes of the HTTPRoute."""
    (reference,), (processor,) = policy["spec"]["targetRefs"], policy["spec"]["extProc"]
    namespace = policy["metadata"]["namespace"]
    name = f"envoyextensionpolicy/{namespace}/{policy['metadata']['name']}/extproc/0"
    assert set(processor) == {
        *("backendRefs", "backendSettings", "failOpen", "shadowMode", "messageTimeout"),
        *("metadata", "processingMode"),
    }
    response = processor["processingMode"]["response"]
    config = {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor",
        "grpc_service": {"envoy_grpc": {"cluster_name": name}, "timeout": "10s"},
        "failure_mode_allow": processor["failOpen"],
        "observability_mode": processor["shadowMode"],
        "message_timeout": processor["messageTimeout"],
        "metadata_options": {
            "receiving_namespaces": {"untyped": processor["metadata"]["writableNamespaces"]}
        },
        "processing_mode": {
            "request_header_mode": "SKIP",
            "request_trailer_mode": "SKIP",
            "response_header_mode": "SEND",
            "response_body_mode": response["body"].upper(),
            "response_trailer_mode": "SKIP",
        },
        "response_attributes": response["attributes"],
    }
    filter_name = f"envoy.filters.http.ext_proc/{name}"
    result = copy.deepcopy(resources)
    chain = result["listeners"][0]["default_filter_chain"]
    chain["filters"][0]["typed_config"]["http_filters"].insert(
        0, {"name": filter_name, "disabled": True, "typed_config": config}
    )
    on = {"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "config": {}}
    for host in result["routes"][0]["virtual_hosts"]:
        for route in host["routes"]:
            if route["name"].startswith(f"httproute/{namespace}/{reference['name']}/"):
                route["typed_per_filter_config"] = {filter_name: on}
    result["clusters"].append(_grpc(name, addresses))
    return result


def _grpc(name: str, addresses: list[str]) -> dict[str, Any]:
    options = "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    endpoints = [
        {"endpoint": {"address": {"socket_address": {"address": host, "port_value": int(port)}}}}
        for host, _, port in (address.rpartition(":") for address in addresses)
    ]
    return {
        "name": name,
        "type": "STATIC",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]},
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": options,
                "explicit_http_config": {"http2_protocol_options": {}},
            }
        },
    }


def bootstrap(base: dict[str, Any], proxy: dict[str, Any], load: Any) -> dict[str, Any]:
    """``base`` with the bootstrap that an EnvoyProxy merges in. ``load`` reads YAML."""
    assert proxy["spec"]["bootstrap"]["type"] == "Merge"
    made = parse(Bootstrap, base)
    made.MergeFrom(parse(Bootstrap, load(proxy["spec"]["bootstrap"]["value"])))
    return dict(plain(made))
