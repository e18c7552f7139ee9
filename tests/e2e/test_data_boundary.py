"""No text of a prompt or of a response is kept, logged, counted, shared or shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.e2e.conftest import Make
from tests.e2e.gateway import Gateway, eventually
from tests.e2e.upstream import Script, answers, completion, stream
from tests.redis_server import RedisServer

ASKED, ANSWERED = "zanzibarquestion", "mozambiqueanswer"

SCRIPTS: dict[str, Script] = {
    "a loop of one word": answers(
        stream([f"{ANSWERED} "] * 80, "length"), completion(f"{ANSWERED} " * 80, "length")
    ),
    "a start, then one symbol": answers(
        stream([f"{ANSWERED} ", *["!"] * 120], "length"),
        completion(ANSWERED + "!" * 200, "length"),
    ),
    "no JSON": answers([f"data: {{{ANSWERED}\n\n".encode()] * 20, ANSWERED.encode() * 20),
    "a template left open": answers(
        stream(["<|im_start|>", f"{ANSWERED}", "<|im_end|>"] * 9),
        completion(f"<|im_start|>{ANSWERED}<|im_end|>" * 9),
    ),
}


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    server.start("--loglevel", "debug")
    try:
        yield server
    finally:
        server.stop()


async def shared(url: str) -> bytes:
    """All that stands in Redis."""
    client = Redis.from_url(url)
    try:
        parts: list[bytes] = []
        async for key in client.scan_iter():
            parts += [bytes(key), bytes(await client.dump(key) or b"")]
        return b"".join(parts)
    finally:
        await client.aclose()


async def everything(g: Gateway, redis: RedisServer) -> dict[str, bytes]:
    """All that the sidecar keeps, shares and shows, but for the evidence on its API."""
    return {
        "units": repr([await g.get("/api/units"), await g.get("/healthz")]).encode(),
        "metrics": repr(await g.metrics()).encode(),
        "redis": await shared(redis.url),
        "log": g.log("sidecar").encode(),
        "Envoy's log": g.log("envoy").encode(),
    }


def stored(g: Gateway) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(g.folder.glob("store.db*")))


COMMON = "nevertheless whereupon"
"""Words that a masked sample shows."""

RETENTION = 8.0
"""Seconds."""


async def test_with_samples_on_masked_text_is_in_the_sample_alone_and_gone_after_its_time(
    gateway: Make, redis: RedisServer
) -> None:
    text = f"{ANSWERED} {COMMON} "
    script = answers(stream([text] * 60, "length"), completion(text * 60, "length"))
    samples = {"keep": "redacted", "max_bytes": 512, "retention_hours": RETENTION / 3600}
    hook = {"name": "people", "url": "http://127.0.0.1:9/", "verdicts": True, "attempts": 1}
    sidecar = {
        "fleet": {"url": redis.url},
        "log": {"level": "debug"},
        "samples": samples,
        "webhooks": [hook],
    }
    g = await gateway(script, script, sidecar=sidecar)
    await g.ask(prompt=f"{ASKED} {COMMON}")
    sampled: dict[str, Any] = {}

    async def seen() -> bool:
        _, found = await g.get("/api/evidence?limit=1000")
        sampled.update(next((r for r in found["evidence"] if r["sample"]), {}))
        return bool(sampled) and COMMON.encode() in stored(g)

    await eventually(seen)
    assert f"<1 latin {len(ANSWERED)}> {COMMON}" in sampled["sample"]
    assert len(sampled["sample"].encode()) <= 512
    assert len(sampled["text_hash"]) == 32
    for place, content in (await everything(g, redis)).items():
        assert COMMON.encode() not in content, f"text is in {place}"
    for canary in (ASKED, ANSWERED):
        assert canary.encode() not in stored(g) + repr(sampled).encode()

    async def gone() -> bool:
        _, found = await g.get("/api/evidence?limit=1000")
        assert found["evidence"]
        hashes = {record["text_hash"] for record in found["evidence"]}
        assert sampled["text_hash"] in hashes, "the hash stays"
        return COMMON.encode() not in stored(g) + repr(found).encode()

    await eventually(gone, RETENTION + 15)


@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_canary_sent_through_the_gateway_is_found_nowhere(
    gateway: Make, redis: RedisServer, name: str
) -> None:
    sidecar = {"fleet": {"url": redis.url}, "log": {"level": "debug"}}
    g = await gateway(SCRIPTS[name], SCRIPTS[name], sidecar=sidecar)
    for number in range(6):
        await g.ask(stream=bool(number % 2), prompt=f"{ASKED} {number}")
    assert await g.command("unit-b", "quarantine", "so that there is something to share") == 200

    async def told() -> bool:
        return b"unit-b" in await shared(redis.url)

    await eventually(told)
    status, evidence = await g.get("/api/evidence?limit=1000")
    assert status == 200
    assert evidence["evidence"]
    seen = {
        "api": repr([evidence, await g.get("/api/units"), await g.get("/healthz")]).encode(),
        "metrics": repr(await g.metrics()).encode(),
        "redis": await shared(redis.url),
        **{file.name: file.read_bytes() for file in sorted(g.folder.glob("store.db*"))},
        "log": g.log("sidecar").encode(),
    }
    assert b"unit-b" in seen["store.db-wal"] + seen["store.db"]
    for place, content in seen.items():
        assert ASKED.encode() not in content, f"the prompt is in {place}"
        assert ANSWERED.encode() not in content, f"the response is in {place}"
