"""Rendered configurations, brought into an Envoy as each control plane does."""

from __future__ import annotations

import copy
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import trustme
import yaml

from extproc.config import Settings, load, parse
from extproc.mesh.render import Target, Version, render
from tests.e2e.gateway import Setup
from tests.mesh import envoy_gateway, istiod, schemas

ENVOY = Path(__file__).resolve().parents[2] / "envoy"
_BASES = Path(__file__).with_name("bases")
_EXTENSION = "type.googleapis.com/envoy.extensions.bootstrap.internal_listener.v3.InternalListener"


def example(target: Target) -> Settings:
    """The settings of ``envoy/<target>``."""
    return load(ENVOY / target / "extproc.yaml")


def changed(target: Target, change: dict[str, Any]) -> tuple[dict[str, Any], Settings]:
    """The same with groups of settings changed: as a tree, and read."""
    tree = yaml.safe_load((ENVOY / target / "extproc.yaml").read_text())
    for name, value in change.items():
        tree[name] = tree.get(name, {}) | value if isinstance(value, dict) else value
    return tree, parse(yaml.safe_dump(tree), "extproc.yaml")


def manifests(files: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Every manifest, valid by its CRD."""
    for text in files.values():
        for manifest in yaml.safe_load_all(text):
            schemas.validate(manifest)
            yield manifest


def standalone(change: dict[str, Any], version: Version | None = None) -> Setup:
    tree, settings = changed(Target.STANDALONE, change)
    files = render(settings, Target.STANDALONE, version or Version()).files
    return Setup(tree, yaml.safe_load(files["envoy.yaml"]))


def shadowed(version: Version | None = None) -> Setup:
    """Standalone, with a third unit that gets a copy of every request; it runs where b runs."""
    units = yaml.safe_load((ENVOY / "standalone" / "extproc.yaml").read_text())["units"]
    candidate = {"id": "unit-c", "release": "r9", "hosts": ["127.0.0.1:8002"]}
    mesh = {"mode": "shadow", "shadow": {"unit": "unit-c", "percent": 100}}
    return standalone({"units": [*units, candidate], "mesh": mesh}, version)


def istio(folder: Path, change: dict[str, Any], version: Version | None = None) -> Setup:
    """Istio's gateway, with mTLS to the pods: ``server_tls`` is theirs."""
    tree, settings = changed(Target.ISTIO, change)
    base = _base("istio", {name: str(folder / name) for name in ("CERT", "KEY", "CA")})
    pushed = istiod.Pushed(base)
    for manifest in manifests(render(settings, Target.ISTIO, version or Version()).files):
        if manifest["kind"] == "EnvoyFilter":
            pushed.apply(manifest)
    # Istio's bootstrap has the extension for its own internal listeners.
    extension = {
        "name": "envoy.bootstrap.internal_listener",
        "typed_config": {"@type": _EXTENSION, "buffer_size_kb": 64},
    }
    bootstrap = {"bootstrap_extensions": [extension]}
    label = {"envoy.transport_socket_match": {"tlsMode": "istio"}}
    return _assembled(tree, bootstrap, pushed.trees(), folder, label)


def gateway(folder: Path, change: dict[str, Any], version: Version | None = None) -> Setup:
    """Envoy Gateway's Envoy."""
    tree, settings = changed(Target.ENVOY_GATEWAY, change)
    found = manifests(render(settings, Target.ENVOY_GATEWAY, version or Version()).files)
    by_kind = {manifest["kind"]: manifest for manifest in found}
    resources = envoy_gateway.patched(_base("envoy-gateway", {}), by_kind["EnvoyPatchPolicy"])
    bootstrap = envoy_gateway.bootstrap({}, by_kind["EnvoyProxy"], yaml.safe_load)
    return _assembled(tree, bootstrap, resources, folder, {})


def gateway_observing(folder: Path) -> Setup:
    """Envoy Gateway's Envoy with an EnvoyExtensionPolicy; the HTTPRoute says its unit in the header
    that the written file asks for."""
    mesh = {"mode": "observe", "routes": [{"route": "llm/chat"}], "envoy_gateway": {}}
    tree, settings = changed(Target.ENVOY_GATEWAY, {"mesh": mesh})
    (policy,) = manifests(render(settings, Target.ENVOY_GATEWAY).files)
    resources = envoy_gateway.observed(_base("envoy-gateway", {}), policy, ["127.0.0.1:18080"])
    header = {"key": settings.trusted_headers.unit, "value": "unit-a"}
    for host in resources["routes"][0]["virtual_hosts"]:
        for route in host["routes"]:
            route["response_headers_to_add"] = [
                {"header": header, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
            ]
    return replace(_assembled(tree, {}, resources, folder, {}), two_tier=False)


def server_tls(folder: Path) -> ssl.SSLContext:
    """Makes the mesh's CA and its certificates in ``folder``; the pods demand the client's."""
    authority = trustme.CA()
    client, server = authority.issue_cert("gateway"), authority.issue_cert("llm")
    authority.cert_pem.write_to_path(folder / "CA")
    client.private_key_pem.write_to_path(folder / "KEY")
    client.cert_chain_pems[0].write_to_path(folder / "CERT")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["istio"])
    authority.configure_trust(context)
    server.configure_cert(context)
    return context


def base_of_gateway() -> dict[str, Any]:
    """What Envoy Gateway sends before any patch."""
    return _base("envoy-gateway", {})


def _base(name: str, words: dict[str, str]) -> dict[str, Any]:
    text = (_BASES / f"{name}.yaml").read_text()
    for word, value in words.items():
        text = text.replace(f"filename: {word}}}", f"filename: {value}}}")
    return dict(yaml.safe_load(text))


def _assembled(
    settings: dict[str, Any],
    bootstrap: dict[str, Any],
    resources: dict[str, Any],
    folder: Path,
    label: dict[str, Any],
) -> Setup:
    """Puts what would come by ADS into one file; endpoints into files of their own."""
    resources = copy.deepcopy(resources)
    routes = {entry["name"]: entry for entry in resources["routes"]}
    for manager in _managers(resources["listeners"]):
        if "rds" in manager:
            manager["route_config"] = routes[manager.pop("rds")["route_config_name"]]
    files = {}
    for at, cluster in enumerate(resources["clusters"]):
        if cluster.get("type") == "EDS":
            name = f"endpoints-{at}.yaml"
            files[name] = _endpoints(cluster["eds_cluster_config"]["service_name"], label)
            source = {"path_config_source": {"path": str(folder / name)}}
            cluster["eds_cluster_config"]["eds_config"] = {**source, "resource_api_version": "V3"}
    envoy = {
        "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 9901}}},
        **bootstrap,
        "static_resources": {name: resources[name] for name in ("listeners", "clusters")},
    }
    return Setup(settings, envoy, files)


def _managers(listeners: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for listener in listeners:
        chains = [*listener.get("filter_chains", []), listener.get("default_filter_chain")]
        for chain in filter(None, chains):
            yield from (entry["typed_config"] for entry in chain["filters"])


def _endpoints(service: str, label: dict[str, Any]) -> dict[str, Any]:
    def host(port: int) -> dict[str, Any]:
        socket = {"address": "127.0.0.1", "port_value": port}
        return {
            "endpoint": {"address": {"socket_address": socket}},
            "metadata": {"filter_metadata": label},
        }

    ports = [port for unit, port in (("unit-a", 8001), ("unit-b", 8002)) if unit in service]
    assignment = {
        "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
        "cluster_name": service,
        "endpoints": [{"lb_endpoints": [host(port) for port in ports or (8001, 8002)]}],
    }
    return {"version_info": "1", "resources": [assignment]}
