"""A corrupt answer never reaches the client: the request goes to another unit."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.e2e.conftest import Make
from tests.e2e.gateway import eventually
from tests.e2e.upstream import (
    BANG_JSON,
    BANG_STREAM,
    HEALTHY_JSON,
    HEALTHY_STREAM,
    OTHER_JSON,
    OTHER_STREAM,
    Reply,
    Request,
    answers,
    completion,
    event,
    stream,
)

BANG = answers(BANG_STREAM, BANG_JSON, gap=0.005)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_healthy_answer_is_unchanged_and_annotated(gateway: Make, streamed: bool) -> None:
    g = await gateway()
    got = await g.ask(stream=streamed)
    assert got.complete
    assert got.body == (b"".join(HEALTHY_STREAM) if streamed else HEALTHY_JSON)
    assert got.headers["x-semantic-unit"] == "unit-a"
    assert got.headers["x-semantic-release"] == "r1"
    assert got.headers["x-semantic-state"] == "pass"
    assert "x-semantic-verdict" not in got.headers
    assert g.b.requests == 0


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_corrupt_answer_is_retried_on_the_other_unit(gateway: Make, streamed: bool) -> None:
    g = await gateway(BANG)
    got = await g.ask(stream=streamed)
    assert got.status == 200
    assert got.complete
    assert got.body == (b"".join(OTHER_STREAM) if streamed else OTHER_JSON)
    assert got.headers["x-semantic-unit"] == "unit-b"
    assert "x-semantic-verdict" not in got.headers
    assert (g.a.requests, g.b.requests) == (1, 1)
    await g.counted("unit-a", corrupt=1)
    await g.counted("unit-b", clean=1)
    assert (await g.metrics())['semantic_extproc_pairs_total{corrupt="one"}'] == 1


async def test_a_burst_on_a_corrupt_unit_delivers_nothing_corrupt(gateway: Make) -> None:
    g = await gateway(BANG)
    burst = await asyncio.gather(*(g.ask(stream=bool(i % 2)) for i in range(40)))
    for i, got in enumerate(burst):
        assert got.body == (b"".join(OTHER_STREAM) if i % 2 else OTHER_JSON)


async def test_a_repeated_burst_ejects_the_unit_and_quarantines_it(gateway: Make) -> None:
    g = await gateway(BANG)
    await asyncio.gather(*(g.ask(stream=True) for _ in range(8)))

    async def both_flags() -> bool:
        return {"failed_outlier_check", "failed_active_health_check"} <= await g.flags("unit_a")

    await eventually(both_flags)
    await g.become("unit-a", state="quarantine", mode="hard")
    before = g.a.requests
    assert (await g.ask()).headers["x-semantic-unit"] == "unit-b"
    assert g.a.requests == before


async def test_outlier_detection_ejects_by_the_marker_alone(gateway: Make) -> None:
    # Without a verdict of the health layer: here nothing is ever bad enough for quarantine.
    g = await gateway(BANG, sidecar={"health": {"alpha": 1e-300, "observe_at": 1e299}})
    for _ in range(3):
        await g.ask()

    async def ejected() -> bool:
        return "failed_outlier_check" in await g.flags("unit_a")

    await eventually(ejected)
    await g.become("unit-a", state="pass")


async def test_a_marker_that_an_upstream_sets_itself_is_removed(gateway: Make) -> None:
    async def spoof(request: Request, reply: Reply) -> None:
        spoofed = {"x-semantic-verdict": "corrupt", "x-semantic-unit": "someone"}
        await reply.json(HEALTHY_JSON, headers=spoofed)

    g = await gateway(spoof)
    got = await g.ask()
    assert got.body == HEALTHY_JSON
    assert got.headers["x-semantic-unit"] == "unit-a"
    assert g.b.requests == 0, "a spoofed marker caused a retry"
    assert (await g.metrics())['semantic_extproc_spoofed_markers_total{unit="unit-a"}'] == 1


async def test_a_spoofed_marker_is_removed_where_nothing_is_inspected(gateway: Make) -> None:
    async def spoof(request: Request, reply: Reply) -> None:
        await reply.json(b"{}", headers={"x-semantic-verdict": "corrupt"})

    g = await gateway(spoof)
    got = await g.ask(path="/v1/models")
    assert got.body == b"{}"
    assert g.b.requests == 0


async def test_a_late_verdict_lets_the_stream_pass_and_is_logged(gateway: Make) -> None:
    pieces = stream([" It", " began", " well", *[" the"] * 120], "length")

    async def late(request: Request, reply: Reply) -> None:
        await reply.sse(pieces, gap=0.002)

    g = await gateway(late)
    got = await g.ask(stream=True)
    assert got.body == b"".join(pieces)
    await g.counted("unit-a", corrupt=1)

    async def logged() -> bool:
        return '"verdict":"corrupt"' in g.log("envoy")

    await eventually(logged)


async def test_the_verdict_of_a_clean_stream_is_logged(gateway: Make) -> None:
    g = await gateway()
    await g.ask(stream=True)

    async def logged() -> bool:
        return '"verdict":"clean"' in g.log("envoy")

    await eventually(logged)


async def test_the_terminate_policy_ends_a_corrupt_stream_in_band(gateway: Make) -> None:
    async def late(request: Request, reply: Reply) -> None:
        await reply.sse(stream([" It", " began", " well", *[" the"] * 2000], "length"), gap=0.005)

    g = await gateway(late, sidecar={"late_verdict": "terminate"})
    got = await g.ask(stream=True)
    assert got.body.startswith(event("", role="assistant") + event(" It"))
    assert b'"type":"semantic_corrupt"' in got.body
    assert got.body.endswith(b"data: [DONE]\n\n")
    assert got.seconds < 8, "the stream went on although it was terminated"

    async def stopped() -> bool:
        return g.a.aborted == 1

    await eventually(stopped)


async def test_a_wanted_repetition_passes_where_the_request_is_seen(gateway: Make) -> None:
    def show_requests(config: dict[str, Any]) -> None:
        for listener in config["static_resources"]["listeners"][1:]:
            manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
            mode = manager["http_filters"][0]["typed_config"]["processing_mode"]
            mode |= {"request_header_mode": "SEND", "request_body_mode": "STREAMED"}

    wanted = stream([" no"] * 60, "stop")
    g = await gateway(answers(wanted, completion(" no" * 60)), change=show_requests)
    asked = 'Write the word "no" 60 times and nothing else.'
    for streamed in (True, False):
        got = await g.ask(stream=streamed, prompt=asked)
        assert got.headers["x-semantic-unit"] == "unit-a"
    assert (await g.ask(stream=True)).headers["x-semantic-unit"] == "unit-b", "nobody asked for it"


async def test_a_prompt_that_both_units_answer_badly_charges_neither(gateway: Make) -> None:
    def eject_nobody(config: dict[str, Any]) -> None:
        clusters = config["static_resources"]["clusters"]
        front = next(c for c in clusters if c["name"] == "llm")
        front["outlier_detection"]["consecutive_5xx"] = 1000

    g = await gateway(BANG, BANG, change=eject_nobody)
    for _ in range(6):
        assert (await g.ask()).body == BANG_JSON, "there is nothing better to give"
    await g.counted("unit-a", corrupt=6)
    await g.counted("unit-b", corrupt=6)
    assert (await g.metrics())['semantic_extproc_pairs_total{corrupt="both"}'] == 6
    for unit in ("unit-a", "unit-b"):
        assert (await g.unit(unit))["state"] == "pass"
