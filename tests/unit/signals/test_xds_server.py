"""The xDS server over real gRPC."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import trustme
from envoy.service.discovery.v3 import ads_pb2_grpc, discovery_pb2
from envoy.service.endpoint.v3 import eds_pb2_grpc
from envoy.service.runtime.v3 import rtds_pb2_grpc

from extproc.detect import Kind
from extproc.health.evidence import Evidence, Subject
from extproc.signals import Metrics
from extproc.signals.xds import XdsServer
from extproc.signals.xds.world import EDS, RTDS
from tests.unit.signals.mesh import HARD, TOPOLOGY, Health, request, statuses, weights
from tests.waiting import until

CHANGE = Evidence("1", Subject.STATE, 0, "a", "r", "*", "*", Kind.CORRUPT)


@pytest.fixture
def health() -> Health:
    return Health()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
async def server(health: Health, metrics: Metrics) -> AsyncIterator[XdsServer]:
    made = XdsServer("127.0.0.1:0", TOPOLOGY, health, metrics)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def channel(server: XdsServer) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as made:
        yield made


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"semantic_extproc_{name}", labels)


async def test_each_type_has_a_service_of_its_own(channel: grpc.aio.Channel) -> None:
    eds = eds_pb2_grpc.EndpointDiscoveryServiceStub(channel).StreamEndpoints()
    await eds.write(request("", "llm"))
    assert statuses(await eds.read()) == {"llm": [1, 1]}
    rtds = rtds_pb2_grpc.RuntimeDiscoveryServiceStub(channel).StreamRuntime()
    await rtds.write(request("", "semantic"))
    assert weights(await rtds.read()) == {"canary.a": 25, "canary.b": 100}


async def test_a_change_of_state_reaches_every_stream(
    channel: grpc.aio.Channel, server: XdsServer, health: Health, metrics: Metrics
) -> None:
    stub = ads_pb2_grpc.AggregatedDiscoveryServiceStub(channel)
    streams = [stub.StreamAggregatedResources() for _ in range(10)]
    for stream in streams:
        await stream.write(request(EDS, "llm"))
        assert statuses(await stream.read()) == {"llm": [1, 1]}
        await stream.write(request(RTDS, "semantic"))
        assert weights(await stream.read())["canary.a"] == 25
    assert value(metrics, "xds_streams") == 10
    health.answers["a"] = HARD
    server.evidence(CHANGE)
    for stream in streams:
        assert statuses(await stream.read()) == {"llm": [2, 1]}
        assert weights(await stream.read())["canary.a"] == 0
    assert value(metrics, "xds_responses_total", type="eds") == 20


async def test_a_change_that_nobody_tells_of_is_found(
    channel: grpc.aio.Channel, health: Health
) -> None:
    stream = eds_pb2_grpc.EndpointDiscoveryServiceStub(channel).StreamEndpoints()
    await stream.write(request(EDS, "llm"))
    await stream.read()
    health.answers["b"] = HARD
    assert statuses(await stream.read()) == {"llm": [1, 2]}


async def test_a_refusal_is_counted(channel: grpc.aio.Channel, metrics: Metrics) -> None:
    stream = eds_pb2_grpc.EndpointDiscoveryServiceStub(channel).StreamEndpoints()
    await stream.write(request(EDS, "llm"))
    first: Any = await stream.read()
    await stream.write(request(EDS, "llm", nonce=first.nonce, error="no"))
    await stream.write(request(EDS, "llm", "other", nonce=first.nonce))
    await stream.read()
    assert value(metrics, "xds_refusals_total", type="eds") == 1


async def test_a_stream_that_its_envoy_leaves_is_forgotten(
    channel: grpc.aio.Channel, metrics: Metrics
) -> None:
    stream = eds_pb2_grpc.EndpointDiscoveryServiceStub(channel).StreamEndpoints()
    await stream.write(request(EDS, "llm"))
    await stream.read()
    stream.cancel()
    await until(lambda: value(metrics, "xds_streams") == 0)


async def test_a_state_that_cannot_be_read_leaves_envoys_as_they_are(
    channel: grpc.aio.Channel, server: XdsServer, health: Health, metrics: Metrics
) -> None:
    stream = eds_pb2_grpc.EndpointDiscoveryServiceStub(channel).StreamEndpoints()
    await stream.write(request(EDS, "llm"))
    await stream.read()
    health.answers["a"] = None  # type: ignore[assignment]
    server.evidence(CHANGE)
    await until(lambda: value(metrics, "internal_errors_total", where="xds") == 1)
    health.answers["a"] = HARD
    server.evidence(CHANGE)
    assert statuses(await stream.read()) == {"llm": [2, 1]}


async def test_incremental_streams_are_told_what_changed(
    channel: grpc.aio.Channel, server: XdsServer, health: Health, metrics: Metrics
) -> None:
    def asks(kind: str, name: str) -> discovery_pb2.DeltaDiscoveryRequest:
        return discovery_pb2.DeltaDiscoveryRequest(type_url=kind, resource_names_subscribe=[name])

    eds = eds_pb2_grpc.EndpointDiscoveryServiceStub(channel).DeltaEndpoints()
    rtds = rtds_pb2_grpc.RuntimeDiscoveryServiceStub(channel).DeltaRuntime()
    both = ads_pb2_grpc.AggregatedDiscoveryServiceStub(channel).DeltaAggregatedResources()
    for stream, kind, name in (
        (eds, EDS, "llm"),
        (rtds, RTDS, "semantic"),
        (both, EDS, "llm"),
        (both, RTDS, "semantic"),
    ):
        await stream.write(asks("" if stream is not both else kind, name))
        assert [each.name for each in (await stream.read()).resources] == [name]
    health.answers["a"] = HARD
    server.evidence(CHANGE)
    assert [each.name for each in (await eds.read()).resources] == ["llm"]
    assert [each.name for each in (await rtds.read()).resources] == ["semantic"]
    assert {(await both.read()).type_url, (await both.read()).type_url} == {EDS, RTDS}
    assert value(metrics, "xds_streams") == 3


async def test_a_port_in_use_is_said(server: XdsServer, health: Health) -> None:
    second = XdsServer(f"127.0.0.1:{server.port}", TOPOLOGY, health, Metrics())
    with pytest.raises(OSError, match="cannot listen on 127"):
        await second.start()
    await second.stop()


async def test_it_may_demand_a_client_certificate(health: Health) -> None:
    ca = trustme.CA()
    pair = ca.issue_cert("localhost")
    private, public = pair.private_key_pem.bytes(), pair.cert_chain_pems[0].bytes()
    root = ca.cert_pem.bytes()
    credentials = grpc.ssl_server_credentials([(private, public)], root, True)
    server = XdsServer("127.0.0.1:0", TOPOLOGY, health, Metrics(), credentials)
    await server.start()
    try:
        shown = grpc.ssl_channel_credentials(root, private, public)
        async with grpc.aio.secure_channel(f"localhost:{server.port}", shown) as channel:
            stream = eds_pb2_grpc.EndpointDiscoveryServiceStub(channel).StreamEndpoints()
            await stream.write(request(EDS, "llm"))
            assert statuses(await stream.read()) == {"llm": [1, 1]}
        none = grpc.ssl_channel_credentials(root)
        async with grpc.aio.secure_channel(f"localhost:{server.port}", none) as channel:
            stream = eds_pb2_grpc.EndpointDiscoveryServiceStub(channel).StreamEndpoints()
            assert await stream.code() is grpc.StatusCode.UNAVAILABLE
    finally:
        await server.stop()
