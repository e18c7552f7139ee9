"""Names that others write: in headers, in metrics and in memory."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.exposition import generate_latest

from extproc.health import Ledger
from extproc.processor import Services
from extproc.processor.stream import EOF, Stream
from extproc.signals import Metrics
from extproc.units import Registry, Unit

BANGS = (
    b'{"choices": [{"index": 0, "message": {"content": "' + b"!" * 200 + b'"},'
    b' "finish_reason": "stop"}]}'
)
FIELDS = ("unit", "release", "host")


class Context:
    """Stands for grpc's: reads from a list, keeps what is written."""

    def __init__(self, messages: list[Any]) -> None:
        self._messages = deque(messages)
        self.written: list[Any] = []

    async def read(self) -> Any:
        return self._messages.popleft() if self._messages else EOF

    async def write(self, reply: bytes) -> None:
        self.written.append(pb.ProcessingResponse.FromString(reply))


@pytest.fixture
def services() -> Services:
    return made()


def made() -> Services:
    units = [Unit("a")]
    registry, ledger, metrics = Registry(units), Ledger(units), Metrics()
    metrics.watch(ledger, registry)
    return Services(registry, ledger, metrics)


async def answered(services: Services, **names: str) -> list[Any]:
    """What Envoy is answered about a corrupt response of somebody who is called so."""
    headers = pb.ProcessingRequest(response_headers=pb.HttpHeaders())
    for key, value in ((":status", b"200"), ("content-type", b"application/json")):
        header = headers.response_headers.headers.headers.add()
        header.key, header.raw_value = key, value
    attributes = headers.attributes["envoy.filters.http.ext_proc"].fields
    for name in ("request.id", "upstream.address", "request.path"):
        attributes[name].string_value = names.get(name, "/v1/chat/completions")
    metadata = headers.metadata_context.filter_metadata["semantic.extproc"].fields
    for name in FIELDS:
        metadata[name].string_value = names.get(name, "a")
    body = pb.ProcessingRequest(response_body=pb.HttpBody(body=BANGS, end_of_stream=True))
    context = Context([headers, body])
    await Stream(services, context).run()
    return context.written


def series(services: Services) -> list[str]:
    lines = generate_latest(services.metrics.registry).decode().splitlines()
    return [line for line in lines if not line.startswith("#")]


@pytest.mark.parametrize("field", [*FIELDS, "request.id", "upstream.address", "request.path"])
async def test_new_names_make_no_more_series_once_many_are_known(
    services: Services, field: str
) -> None:
    async def meet(start: int, names: int) -> int:
        for number in range(start, start + names):
            await answered(services, **{field: f"x{number}"})
        return len(series(services))

    many = await meet(0, 600)  # more than are told apart of anything
    assert await meet(600, 300) <= many + 4
    assert len(list(services.ledger.units)) <= 260
    assert len(list(services.ledger.tracks("a"))) <= 8


NAMES = st.text(max_size=20) | st.sampled_from(
    [
        "a\r\nx-evil: 1",
        "\x00",
        "x" * 65536,
        "é",
        "a\x1b[31m",
        '"} 1\nfake_metric 9',
        "a b",
        "%0d%0a",
    ]
)


@given(NAMES, NAMES, NAMES, NAMES)
async def test_no_name_can_write_a_header_or_a_metric(
    unit: str, release: str, host: str, other: str
) -> None:
    services = made()
    names = {"request.id": other, "upstream.address": other}
    for reply in await answered(services, unit=unit, release=release, host=host, **names):
        for option in reply.response_headers.response.header_mutation.set_headers:
            value = option.header.raw_value.decode("ascii")
            assert option.header.key.startswith("x-semantic-")
            assert value.isprintable()
            assert len(value) <= 128
    assert not [line for line in series(services) if not line.startswith("semantic_extproc_")]
    for known in services.ledger.units:
        assert all(name.isprintable() and len(name) <= 128 for name in services.ledger.hosts(known))
