"""Answers of a health endpoint that a test sets, and a topology of two clusters."""

from __future__ import annotations

from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.service.discovery.v3 import discovery_pb2
from envoy.service.runtime.v3 import rtds_pb2

from extproc.signals import Answer
from extproc.signals.xds import Cluster, Endpoint, Topology, Weight

PASS = Answer(200, {"x-semantic-state": "pass"}, "healthy", "a")
OBSERVE = Answer(200, {"x-semantic-state": "observe"}, "healthy", "a")
SOFT = Answer(200, {"x-semantic-state": "quarantine", "x-envoy-degraded": "true"}, "degraded", "a")
HARD = Answer(503, {"x-semantic-state": "quarantine"}, "quarantined", "a")

TOPOLOGY = Topology(
    (
        Cluster("llm", (Endpoint("envoy://unit_a", "a"), Endpoint("envoy://unit_b", "b", 1))),
        Cluster("other", (Endpoint("127.0.0.1:8003", "c"),)),
    ),
    "semantic",
    (Weight("canary.a", "a", 25), Weight("canary.b", "b", 100)),
)


class Health:
    """``ask`` for a World: all well, unless a test says otherwise."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}

    def __call__(self, name: str) -> Answer:
        return self.answers.get(name, PASS)


def request(
    kind: str, *names: str, nonce: str = "", version: str = "", error: str = ""
) -> discovery_pb2.DiscoveryRequest:
    made = discovery_pb2.DiscoveryRequest(
        type_url=kind, resource_names=names, response_nonce=nonce, version_info=version
    )
    if error:
        made.error_detail.message = error
    return made


def statuses(response: discovery_pb2.DiscoveryResponse) -> dict[str, list[int]]:
    """Cluster -> health of its endpoints, of an EDS response."""
    found = {}
    for resource in response.resources:
        message = endpoint_pb2.ClusterLoadAssignment()
        assert resource.Unpack(message)
        found[message.cluster_name] = [
            entry.health_status for group in message.endpoints for entry in group.lb_endpoints
        ]
    return found


def weights(response: discovery_pb2.DiscoveryResponse) -> dict[str, float]:
    """Key -> weight, of an RTDS response."""
    (resource,) = response.resources
    message = rtds_pb2.Runtime()
    assert resource.Unpack(message)
    return {key: value.number_value for key, value in message.layer.fields.items()}
