"""State -> endpoint health and canary weights."""

from __future__ import annotations

import pytest
from envoy.config.core.v3 import health_check_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.service.runtime.v3 import rtds_pb2

from extproc.signals import Answer
from extproc.signals.xds.topology import Cluster, Endpoint, Hard, Topology, Weight
from extproc.signals.xds.world import EDS, RTDS, World
from tests.unit.signals.mesh import HARD, OBSERVE, PASS, SOFT, TOPOLOGY, Health


def assignment(world: World, cluster: str) -> endpoint_pb2.ClusterLoadAssignment:
    message = endpoint_pb2.ClusterLoadAssignment()
    assert world.snapshot()[EDS].by_name[cluster].content.Unpack(message)
    return message


def weight(world: World, key: str = "canary.a") -> float:
    message = rtds_pb2.Runtime()
    assert world.snapshot()[RTDS].by_name["semantic"].content.Unpack(message)
    return float(message.layer.fields[key].number_value)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (PASS, health_check_pb2.HEALTHY),
        (OBSERVE, health_check_pb2.HEALTHY),
        (SOFT, health_check_pb2.DEGRADED),
        (HARD, health_check_pb2.UNHEALTHY),
    ],
)
def test_an_endpoint_is_as_well_as_its_unit(answer: Answer, status: int) -> None:
    health = Health()
    health.answers["a"] = answer
    found = assignment(World(TOPOLOGY, health), "llm")
    assert [group.priority for group in found.endpoints] == [0, 1]
    assert found.endpoints[0].lb_endpoints[0].health_status == status
    assert found.endpoints[1].lb_endpoints[0].health_status == health_check_pb2.HEALTHY


def test_a_cluster_may_ask_for_draining_instead() -> None:
    health = Health()
    health.answers["a"] = HARD
    topology = Topology((Cluster("c", (Endpoint("127.0.0.1:1", "a"),), Hard.DRAINING),))
    found = assignment(World(topology, health), "c")
    assert found.endpoints[0].lb_endpoints[0].health_status == health_check_pb2.DRAINING


def test_every_form_of_address_weight_and_metadata_reaches_envoy() -> None:
    endpoints = (
        Endpoint("[::1]:8000", "a", weight=3, metadata=(("host", "a1"),)),
        Endpoint("envoy://unit_a", "a"),
        Endpoint("unix:///run/engine.sock", "a"),
    )
    found = assignment(World(Topology((Cluster("c", endpoints),)), Health()), "c")
    first, second, third = found.endpoints[0].lb_endpoints
    address = first.endpoint.address.socket_address
    assert (address.address, address.port_value) == ("::1", 8000)
    assert first.load_balancing_weight.value == 3
    assert first.metadata.filter_metadata["semantic.extproc"]["host"] == "a1"
    assert second.endpoint.address.envoy_internal_address.server_listener_name == "unit_a"
    assert third.endpoint.address.pipe.path == "/run/engine.sock"


def test_a_weight_is_0_in_quarantine_held_in_observe_and_full_in_pass() -> None:
    health = Health()
    world = World(TOPOLOGY, health)
    for answer, expected in [(PASS, 25), (OBSERVE, 25), (HARD, 0), (PASS, 25), (SOFT, 0)]:
        health.answers["a"] = answer
        assert weight(world) == expected
        assert weight(world, "canary.b") == 100


def test_a_unit_let_out_of_quarantine_starts_small_but_not_at_nothing() -> None:
    health = Health()
    world = World(TOPOLOGY, health)
    health.answers["a"] = HARD
    assert weight(world) == 0
    health.answers["a"] = OBSERVE
    assert weight(world) == 1
    assert weight(world) == 1


def test_a_unit_that_is_observed_from_the_start_starts_small() -> None:
    health = Health()
    health.answers["a"] = OBSERVE
    topology = Topology((), "semantic", (Weight("canary.a", "a", 25, reentry=5),))
    assert weight(World(topology, health)) == 5


def test_a_snapshot_stays_the_same_object_until_it_says_something_else() -> None:
    health = Health()
    world = World(TOPOLOGY, health)
    first = world.snapshot()
    assert world.snapshot() is first
    health.answers["c"] = HARD
    second = world.snapshot()
    assert second is not first
    assert second[EDS].version != first[EDS].version
    assert second[RTDS].version == first[RTDS].version
    assert second[EDS].by_name["llm"].digest == first[EDS].by_name["llm"].digest


def test_versions_tell_opinions_apart_not_sidecars() -> None:
    well, ill = Health(), Health()
    ill.answers["a"] = HARD
    one, two, three = (World(TOPOLOGY, health).snapshot() for health in (well, Health(), ill))
    assert one[EDS].version == two[EDS].version != three[EDS].version
