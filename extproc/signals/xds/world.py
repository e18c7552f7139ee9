"""State -> xDS resources: endpoint health (EDS) and canary weights (RTDS).

What Envoy is told here is what ``/unit-health`` would have answered: one rule, two ways to say it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from envoy.config.core.v3 import health_check_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.service.runtime.v3 import rtds_pb2
from google.protobuf import any_pb2

from extproc.health import State
from extproc.signals.unit_health import Answer
from extproc.signals.xds.topology import INTERNAL, UNIX, Cluster, Endpoint, Hard, Topology, Weight

EDS = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
RTDS = "type.googleapis.com/envoy.service.runtime.v3.Runtime"

NAMESPACE = "semantic.extproc"

_Health: Any = health_check_pb2
_HARD = {Hard.UNHEALTHY: _Health.UNHEALTHY, Hard.DRAINING: _Health.DRAINING}

Ask = Callable[[str], Answer]
"""What ``/unit-health`` answers for a name."""


class Resource(NamedTuple):
    """One resource, packed, and a digest of it."""

    digest: str
    content: any_pb2.Any


class Resources(NamedTuple):
    """All resources of one type. ``version`` is made of what they say: two sidecars of one opinion
    give one version, and a sidecar that starts again with another opinion gives another."""

    version: str
    by_name: Mapping[str, Resource]


Snapshot = Mapping[str, Resources]
"""Type URL -> resources. Never changed; a change makes a new one."""


class World:
    """Makes snapshots. ``ask`` is called for every endpoint and key whenever one is wanted."""

    def __init__(self, topology: Topology, ask: Ask) -> None:
        self._topology = topology
        self._ask = ask
        self._weights: dict[str, int] = {}  # key -> what Envoys were told last
        self._said: object = None
        self._snapshot: Snapshot = {}

    def snapshot(self) -> Snapshot:
        """The resources now; the same object as before while they say the same."""
        topology = self._topology
        health = [[self._health(e, c.hard) for e in c.endpoints] for c in topology.clusters]
        weights = [(entry.key, self._weight(entry)) for entry in topology.weights]
        said = (health, weights)
        if said != self._said:
            self._said = said
            self._snapshot = {
                EDS: _resources(
                    (cluster.name, _assignment(cluster, statuses))
                    for cluster, statuses in zip(topology.clusters, health, strict=True)
                ),
                RTDS: _resources([(topology.layer, _layer(topology.layer, weights))])
                if topology.layer
                else Resources("", {}),
            }
        return self._snapshot

    def _health(self, endpoint: Endpoint, hard: Hard) -> int:
        answer = self._ask(endpoint.ask)
        if answer.status != 200:
            return int(_HARD[hard])
        return int(_Health.DEGRADED if "x-envoy-degraded" in answer.headers else _Health.HEALTHY)

    def _weight(self, entry: Weight) -> int:
        state = self._ask(entry.ask).headers.get("x-semantic-state", State.PASS.value)
        if state == State.QUARANTINE.value:
            now = 0
        elif state == State.OBSERVE.value:
            # A unit without traffic could never show that it is well again: not 0.
            now = self._weights.get(entry.key) or min(entry.reentry, entry.weight)
        else:
            now = entry.weight
        self._weights[entry.key] = now
        return now


def _resources(messages: Iterable[tuple[str, Any]]) -> Resources:
    found: dict[str, Resource] = {}
    for name, message in messages:
        content = any_pb2.Any()
        content.Pack(message, deterministic=True)
        found[name] = Resource(hashlib.sha256(content.value).hexdigest()[:16], content)
    whole = "".join(f"{name}={resource.digest};" for name, resource in found.items())
    return Resources(hashlib.sha256(whole.encode()).hexdigest()[:16], found)


def _assignment(cluster: Cluster, statuses: list[int]) -> Any:
    message = endpoint_pb2.ClusterLoadAssignment(cluster_name=cluster.name)
    groups: dict[int, Any] = {}
    for endpoint, status in zip(cluster.endpoints, statuses, strict=True):
        group = groups.get(endpoint.priority)
        if group is None:
            group = groups[endpoint.priority] = message.endpoints.add(priority=endpoint.priority)
        entry = group.lb_endpoints.add(health_status=status)
        _set_address(entry.endpoint.address, endpoint.address)
        if endpoint.weight:
            entry.load_balancing_weight.value = endpoint.weight
        for name, value in endpoint.metadata:
            entry.metadata.filter_metadata[NAMESPACE].fields[name].string_value = value
    return message


def _set_address(target: Any, address: str) -> None:
    if address.startswith(INTERNAL):
        target.envoy_internal_address.server_listener_name = address.removeprefix(INTERNAL)
    elif address.startswith(UNIX):
        target.pipe.path = address.removeprefix(UNIX)
    else:
        host, _, port = address.rpartition(":")
        target.socket_address.address = host.strip("[]")
        target.socket_address.port_value = int(port)


def _layer(name: str, weights: list[tuple[str, int]]) -> Any:
    message = rtds_pb2.Runtime(name=name)
    for key, weight in weights:
        message.layer.fields[key].number_value = weight
    return message
