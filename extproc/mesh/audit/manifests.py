"""Kubernetes manifests that carry Envoy's messages, or an ext_proc of Envoy Gateway's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from extproc.mesh.audit.gather import Resources, from_resource
from extproc.mesh.audit.node import ABSENT, Node, join
from extproc.mesh.audit.world import EXT_PROC, MANAGER, Filter

Take = Callable[[Resources, Node], bool]
Parse = Callable[[str, str], list[Any]]

PARTIAL = "a patch to something that is not in this file; audit the running Envoy to see the result"
_ADDS = ("ADD", "INSERT_BEFORE", "INSERT_AFTER", "INSERT_FIRST", "REPLACE")


def from_manifest(found: Resources, node: Node, take: Take, parse: Parse) -> bool:
    """Takes in one manifest; whether it holds anything that an audit reads."""
    kind = node.key("kind").text()
    if kind == "List":
        return sum(from_manifest(found, entry, take, parse) for entry in node["items"].items()) > 0
    if kind == "EnvoyFilter":
        _envoy_filter(found, node)
        return True
    if kind == "EnvoyPatchPolicy":
        _patch_policy(found, node)
        return True
    if kind == "EnvoyExtensionPolicy":
        _extension_policy(found, node)
        return True
    if kind == "DestinationRule":
        found.rules.append(node["spec"])
        return False  # beside others; alone it is nothing that an audit could judge
    if kind == "ConfigMap":
        used = False
        for name, entry in node["data"].entries():
            if not name.endswith((".yaml", ".yml", ".json")):
                continue
            for document in parse(entry.text(), entry.path):
                if isinstance(document, dict) and not {"units", "grpc"} & set(document):
                    used = take(found, Node(document, entry.path)) or used
        return used
    found.notes.append(f"{_path(node, 'kind')}: {kind} is not read")
    return False


def _path(node: Node, name: str) -> str:
    return node[name].path


def _envoy_filter(found: Resources, node: Node) -> None:
    hosts: list[Node] = []
    routes: list[Node] = []
    for patch in node.at("spec", "config_patches").items():
        kind = patch["apply_to"].text()
        operation = patch.at("patch", "operation").text()
        value = patch.at("patch", "value")
        adds = operation in _ADDS
        if kind == "LISTENER" and adds:
            found.listeners.append(value)
        elif kind == "CLUSTER" and adds:
            found.clusters.append(value)
        elif kind == "CLUSTER" and operation == "MERGE":
            found.partial.setdefault(patch.at("match", "cluster", "name").text(), value)
        elif kind == "HTTP_FILTER" and adds:
            after = operation == "INSERT_AFTER" and _router_named(patch)
            found.loose.append(replace(loose_filter(value), after_router=after))
        elif kind == "EXTENSION_CONFIG" and adds:
            found.filters.append(value)
        elif kind == "ROUTE_CONFIGURATION":
            found.tables.append(value)
        elif kind == "VIRTUAL_HOST":
            hosts.append(value)
        elif kind == "HTTP_ROUTE":
            routes.append(value)
        elif kind == "BOOTSTRAP":
            _bootstrap(found, value)
        elif kind == "NETWORK_FILTER" and value["typed_config"].type().endswith(MANAGER):
            found.loose += [
                loose_filter(entry) for entry in value["typed_config"].any()["http_filters"].items()
            ]
        elif operation != "REMOVE":
            found.notes.append(f"{patch.path}: {kind} {operation} is {PARTIAL}")
    _marry(found, hosts, routes)


def _router_named(patch: Node) -> bool:
    chain = patch.at("match", "listener", "filter_chain")
    return chain.at("filter", "sub_filter", "name").text() == "envoy.filters.http.router"


def _bootstrap(found: Resources, value: Node) -> None:
    for layer in value.at("layered_runtime", "layers").items():
        found.runtime.update(layer["static_layer"].fields())


def _marry(found: Resources, hosts: list[Node], routes: list[Node]) -> None:
    """A patched virtual host and the patched routes beside it are one, as far as a file tells."""
    for host in hosts:
        if host["routes"]:
            found.loose_hosts.append(host)
    bare = [host for host in hosts if not host["routes"]]
    found.loose_routes += [(route, bare[0] if bare else ABSENT) for route in routes]


def loose_filter(value: Node) -> Filter:
    """A filter that goes into a chain which is not here."""
    place = value["typed_config"]
    return Filter(value, value["name"].text(), place.type(), place.any(), value["disabled"].flag())


def _patch_policy(found: Resources, node: Node) -> None:
    built: dict[tuple[str, str, str], dict[str, Any]] = {}
    places = node.at("spec", "json_patches")
    for patch in places.items():
        kind, name = patch["type"].text(), patch["name"].text()
        operation = patch["operation"]
        value, where = operation["value"], operation["path"].text()
        selected = operation["json_path"].text()
        if operation["op"].text() not in ("add", "replace") or not value:
            continue
        if where in ("", "/") and not selected:
            from_resource(found, Node({"@type": kind, **value.fields()}, value.path))
        elif isinstance(value.value, dict) and value["typed_config"].type().endswith(EXT_PROC):
            found.loose.append(loose_filter(value))
        elif where.strip("/"):
            _put(built.setdefault((kind, name, selected), {}), where, value.value)
    hosts: list[Node] = []
    routes: list[Node] = []
    for (kind, name, selected), content in built.items():
        built_node = Node(_lists(content), join(places.path, f"{name} {selected}".strip()))
        if kind.endswith("Cluster"):
            found.partial.setdefault(name, built_node)
        elif not kind.endswith("RouteConfiguration"):
            found.notes.append(f"{name}: {kind.rpartition('.')[2]} gets {PARTIAL}")
        elif built_node["virtual_hosts"]:
            found.tables.append(built_node)
        elif built_node["route"]:
            routes.append(built_node)
        else:
            hosts.append(built_node)
    _marry(found, hosts, routes)


def _put(tree: dict[str, Any], where: str, value: Any) -> None:
    """Sets what a JSON pointer names in a tree of mappings."""
    *parents, last = [
        part.replace("~1", "/").replace("~0", "~") for part in where.strip("/").split("/")
    ]
    for part in parents:
        inner = tree.setdefault(part, {})
        if not isinstance(inner, dict):
            return
        tree = inner
    tree[last] = value


def _lists(tree: Any) -> Any:
    """Mappings whose keys are numbers as the lists that they stand for."""
    if not isinstance(tree, dict):
        return tree
    inner = {key: _lists(value) for key, value in tree.items()}
    if inner and all(key.isdecimal() or key == "-" for key in inner):
        return [inner[key] for key in sorted(inner, key=lambda key: (key == "-", key.zfill(9)))]
    return inner


_EXTENSION = {
    "failure_mode_allow": "failOpen",
    "message_timeout": "messageTimeout",
    "processing_mode": "processingMode",
    "response_attributes": "processingMode.response.attributes",
    "request_attributes": "processingMode.request.attributes",
    "metadata_options": "metadata",
    "allow_mode_override": "processingMode.allowModeOverride",
    "observability_mode": "shadowMode",
}

_BODIES = {
    "Streamed": "STREAMED",
    "Buffered": "BUFFERED",
    "BufferedPartial": "BUFFERED_PARTIAL",
    "FullDuplexStreamed": "FULL_DUPLEX_STREAMED",
}


class _Translated(Node):
    """An ext_proc of Envoy Gateway's as Envoy's message, with Envoy Gateway's paths."""

    def __getitem__(self, name: str) -> Node:
        node = super().__getitem__(name)
        return Node(node.value, f"{self.path}.{_EXTENSION.get(name, name)}")


def _extension_policy(found: Resources, node: Node) -> None:
    for entry in node.at("spec", "ext_proc").items():
        mode = entry["processing_mode"]
        request, response = mode["request"], mode["response"]
        config: dict[str, Any] = {
            "failure_mode_allow": entry["fail_open"].flag(),
            "observability_mode": entry["shadow_mode"].flag(),
            "message_timeout": entry["message_timeout"].value,
            "allow_mode_override": mode["allow_mode_override"].flag(),
            "request_attributes": request["attributes"].value,
            "response_attributes": response["attributes"].value,
            "processing_mode": {
                "request_header_mode": "SEND" if request else "SKIP",
                "response_header_mode": "SEND" if response else "SKIP",
                "request_body_mode": _BODIES.get(request["body"].text(), "NONE"),
                "response_body_mode": _BODIES.get(response["body"].text(), "NONE"),
            },
            "metadata_options": {
                "forwarding_namespaces": {
                    "untyped": entry.at("metadata", "accessible_namespaces").value
                },
                "receiving_namespaces": {
                    "untyped": entry.at("metadata", "writable_namespaces").value
                },
            },
        }
        backend = next(iter(entry["backend_refs"].items()), ABSENT)["name"].text()
        config["grpc_service"] = {"envoy_grpc": {"cluster_name": backend}}
        translated = _Translated(config, entry.path)
        found.loose.append(Filter(entry, backend, EXT_PROC, translated, policy=True))
