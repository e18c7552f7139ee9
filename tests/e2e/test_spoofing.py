"""What a client or an engine may say of itself changes nobody's health."""

from __future__ import annotations

import asyncio

from tests.e2e.conftest import Make
from tests.e2e.gateway import eventually
from tests.e2e.upstream import (
    BANG_JSON,
    BANG_STREAM,
    HEALTHY_JSON,
    HEALTHY_STREAM,
    OTHER_STREAM,
    Reply,
    Request,
    answers,
)

CLAIMS = {
    "x-semantic-verdict": "corrupt",
    "x-semantic-unit": "unit-b",
    "x-semantic-release": "r9",
    "x-semantic-state": "quarantine",
    "x-envoy-attempt-count": "7",
}
BANG = answers(BANG_STREAM, BANG_JSON, gap=0.005)


async def test_a_client_s_claims_change_neither_the_route_nor_the_book(gateway: Make) -> None:
    g = await gateway()
    for streamed in (False, True):
        got = await g.ask(stream=streamed, headers=CLAIMS)
        assert got.body == (b"".join(HEALTHY_STREAM) if streamed else HEALTHY_JSON)
        assert got.headers["x-semantic-unit"] == "unit-a"
        assert got.headers["x-semantic-state"] == "pass"
        assert "x-semantic-verdict" not in got.headers
    assert g.b.requests == 0
    await g.counted("unit-a", clean=2)
    await g.counted("unit-b")


async def test_a_client_does_not_count_its_own_attempts(gateway: Make) -> None:
    g = await gateway(BANG)
    got = await g.ask(stream=True, headers=CLAIMS)
    assert got.body == b"".join(OTHER_STREAM)

    async def told() -> bool:
        return bool((await g.get("/api/evidence?unit=unit-a"))[1]["evidence"])

    await eventually(told)
    (first, *_) = (await g.get("/api/evidence?unit=unit-a"))[1]["evidence"]
    assert first["attempt"] == 1
    await g.counted("unit-a", corrupt=1)


async def test_an_engine_s_claims_about_another_unit_are_not_heard(gateway: Make) -> None:
    async def claims(request: Request, reply: Reply) -> None:
        await reply.json(HEALTHY_JSON, headers={**CLAIMS, "x-semantic-unit": "unit-b"})

    g = await gateway(claims)
    got = await g.ask()
    assert got.body == HEALTHY_JSON
    assert got.headers["x-semantic-unit"] == "unit-a"
    assert got.headers["x-semantic-release"] == "r1"
    assert got.headers["x-semantic-state"] == "pass"
    await g.counted("unit-a", clean=1)
    await g.counted("unit-b")


async def test_a_header_that_is_no_text_hides_no_answer(gateway: Make) -> None:
    # Envoy hands it on in a string of protobuf, where it makes the whole message unreadable.
    g = await gateway(BANG)
    host, _, port = g.front.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
        b"traceparent: \xff\xfe\r\nx-request-id: \xff\r\n"
        b"content-type: application/json\r\ncontent-length: 16\r\n\r\n"
        b'{"stream": true}'
    )
    got = await reader.read()
    writer.close()
    assert b"x-semantic-unit: unit-b" in got
    await g.counted("unit-a", corrupt=1)
    await g.counted("unit-b", clean=1)
    assert not any("internal_errors" in name for name in await g.metrics())
