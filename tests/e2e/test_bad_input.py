"""Bytes that break their own format: a finding at most, never a changed byte for the client."""

from __future__ import annotations

import gzip
import zlib
from typing import NamedTuple

import brotli
import pytest

from tests.e2e.conftest import Make
from tests.e2e.upstream import (
    BANG_STREAM,
    HEALTHY_JSON,
    HEALTHY_STREAM,
    OTHER_STREAM,
    Reply,
    Request,
    event,
)

try:
    from backports import zstd
except ImportError:
    from compression import zstd  # type: ignore[import-not-found,no-redef]

WHOLE = b"".join(HEALTHY_STREAM)
SSE = "text/event-stream"
JSON = "application/json"


class Case(NamedTuple):
    body: bytes
    content_type: str
    encoding: str
    verdict: str


# Never three corrupt ones in a row: Envoy would eject the unit.
CASES = {
    "malformed JSON": Case(b'{"choices": [{', JSON, "", "corrupt"),
    "JSON that is no object": Case(b'["a", 1, null]', JSON, "", "unchecked"),
    "wrong types everywhere": Case(
        b'{"choices": {"0": 1}, "usage": [], "error": null}', JSON, "", "unchecked"
    ),
    "an empty body": Case(b"", JSON, "", "unchecked"),
    "a truncated stream": Case(WHOLE[: len(WHOLE) // 2 + 11], SSE, "", "corrupt"),
    "gzip that is none": Case(WHOLE, SSE, "gzip", "unchecked"),
    "invalid UTF-8": Case(WHOLE.replace(b"harbour", b"h\xffrbour"), SSE, "", "corrupt"),
    "br that is none": Case(WHOLE, SSE, "br", "unchecked"),
    "a stream that is no stream": Case(b"\x00\x01garbage\n\n\n", SSE, "", "corrupt"),
    "zstd that is none": Case(WHOLE, SSE, "zstd", "unchecked"),
    "gzip that ends early": Case(gzip.compress(WHOLE)[:-60], SSE, "gzip", "corrupt"),
    "an encoding nobody knows": Case(WHOLE, SSE, "snappy", "unchecked"),
    "a gzip bomb": Case(gzip.compress(bytes(64 << 20)), SSE, "gzip", "unchecked"),
    "a brotli bomb": Case(brotli.compress(bytes(64 << 20)), JSON, "br", "unchecked"),
    "a content type nobody knows": Case(WHOLE, "application/vnd.x", "", "unchecked"),
}


async def test_broken_bodies_reach_the_client_unchanged(gateway: Make) -> None:
    current: Case

    async def serve(_: Request, reply: Reply) -> None:
        headers = {"content-encoding": current.encoding} if current.encoding else {}
        await reply.head(content_type=current.content_type, headers=headers)
        for at in range(0, len(current.body), 4096):
            await reply.write(current.body[at : at + 4096])
        await reply.end()

    # Both units answer so, and nothing is bad enough to move traffic: a retry changes no byte.
    g = await gateway(serve, serve, sidecar={"health": {"alpha": 1e-300, "observe_at": 1e299}})
    wanted = {"clean": 0, "suspect": 0, "corrupt": 0, "unchecked": 0}
    for name, current in CASES.items():
        got = await g.ask(stream=True)
        assert (got.status, got.complete) == (200, True), name
        assert got.body == current.body, name
        wanted[current.verdict] += 1
        await g.counted("unit-a", **wanted)
    assert not [name for name in await g.metrics() if "internal_errors" in name]
    assert "exception" not in g.log("sidecar")


async def test_a_path_under_which_nothing_is_generated_passes_uninspected(gateway: Make) -> None:
    g = await gateway()
    got = await g.ask(path="/metrics")
    assert got.body == HEALTHY_JSON
    assert got.headers["x-semantic-unit"] == "unit-a"
    await g.counted("unit-a", unchecked=1)


async def test_a_path_nobody_knows_is_told_by_its_body(gateway: Make) -> None:
    g = await gateway()
    assert (await g.ask(path="/a/b/c")).body == HEALTHY_JSON
    await g.counted("unit-a", clean=1)


ENCODERS = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
}


@pytest.mark.parametrize("encoding", ENCODERS)
async def test_compressed_streams_are_judged_and_pass_unchanged(
    gateway: Make, encoding: str
) -> None:
    bodies = {"unit-a": b"".join(BANG_STREAM), "unit-b": b"".join(OTHER_STREAM)}

    def compressed(unit: str) -> object:
        async def serve(_: Request, reply: Reply) -> None:
            await reply.head(headers={"content-encoding": encoding})
            await reply.write(ENCODERS[encoding](bodies[unit]))
            await reply.end()

        return serve

    g = await gateway(compressed("unit-a"), compressed("unit-b"))
    got = await g.ask(stream=True)
    assert got.headers["x-semantic-unit"] == "unit-b"
    assert got.headers["content-encoding"] == encoding
    assert got.body == ENCODERS[encoding](bodies["unit-b"])
    await g.counted("unit-a", corrupt=1)
    await g.counted("unit-b", clean=1)


async def test_a_literal_nan_is_corrupt(gateway: Make) -> None:
    async def serve(_: Request, reply: Reply) -> None:
        await reply.json(HEALTHY_JSON.replace(b'"prompt_tokens": 9', b'"prompt_tokens": NaN'))

    g = await gateway(serve)
    assert (await g.ask()).headers["x-semantic-unit"] == "unit-b"


async def test_several_events_in_one_write_and_one_event_in_many_are_the_same(
    gateway: Make,
) -> None:
    async def glued(_: Request, reply: Reply) -> None:
        await reply.head()
        await reply.write(b"".join(BANG_STREAM))
        await reply.end()

    async def shredded(_: Request, reply: Reply) -> None:
        body = b": ping\r\n\r\n" + b"".join(BANG_STREAM[:30]).replace(b"\n", b"\r\n")
        await reply.head()
        for at in range(0, len(body), 7):
            await reply.write(body[at : at + 7])
        await reply.end()

    g = await gateway(glued)
    assert (await g.ask(stream=True)).headers["x-semantic-unit"] == "unit-b"
    g.a.script = shredded
    assert (await g.ask(stream=True)).headers["x-semantic-unit"] == "unit-b"


async def test_empty_tokens_are_corrupt(gateway: Make) -> None:
    async def empty(_: Request, reply: Reply) -> None:
        await reply.sse([event("", role="assistant"), *[event("")] * 40, event(finish="length")])

    g = await gateway(empty)
    assert (await g.ask(stream=True)).headers["x-semantic-unit"] == "unit-b"
