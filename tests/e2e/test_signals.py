"""What the mesh and its operators are told, and what they can say."""

from __future__ import annotations

import copy
from typing import Any

from tests.e2e.conftest import Make
from tests.e2e.gateway import eventually
from tests.e2e.upstream import (
    BANG_JSON,
    BANG_STREAM,
    HEALTHY_JSON,
    OTHER_JSON,
    Upstream,
    answers,
)


async def test_unit_health_moves_traffic_away_and_back(gateway: Make) -> None:
    g = await gateway()
    assert await g.command("unit-a", "quarantine", "a driver update") == 200

    async def gone() -> bool:
        return "failed_active_health_check" in await g.flags("unit_a")

    await eventually(gone)
    assert (await g.ask()).headers["x-semantic-unit"] == "unit-b"
    assert await g.command("unit-a", "release", "the driver is back") == 200

    async def back() -> bool:
        return not await g.flags("unit_a")

    await eventually(back)
    got = await g.ask()
    assert got.headers["x-semantic-unit"] == "unit-a"


async def test_without_a_verified_fallback_quarantine_is_soft(gateway: Make) -> None:
    units = [
        {"id": "unit-a", "clusters": ["unit_a"], "fallback": ["unit-b"]},
        {"id": "unit-b", "clusters": ["unit_b"]},
    ]
    g = await gateway(sidecar={"units": units})
    await g.command("unit-a", "quarantine", "test")

    async def degraded() -> bool:
        return "failed_active_degraded_check" in await g.flags("unit_a")

    await eventually(degraded)
    assert (await g.unit("unit-a"))["mode"] == "soft"
    assert (await g.ask()).headers["x-semantic-unit"] == "unit-b"


async def test_a_quarantined_unit_stays_out_though_it_answers_well_again(gateway: Make) -> None:
    g = await gateway(answers(BANG_STREAM, BANG_JSON))
    for _ in range(3):
        await g.ask()
    await g.become("unit-a", state="quarantine")
    await eventually_out(g)
    for _ in range(20):
        assert (await g.ask()).headers["x-semantic-unit"] == "unit-b"


async def eventually_out(g: object) -> None:
    async def out() -> bool:
        return "failed_active_health_check" in await g.flags("unit_a")  # type: ignore[attr-defined]

    await eventually(out)


async def test_the_state_change_is_logged_with_its_findings_and_without_text(gateway: Make) -> None:
    g = await gateway(answers(BANG_STREAM, BANG_JSON))
    for _ in range(3):
        await g.ask()
    await g.become("unit-a", state="quarantine")
    log = g.log("sidecar")
    assert '"after": "quarantine"' in log
    assert '"repetition.' in log
    assert "Hello" not in log, "the prompt is in the log"


async def test_metrics_tell_what_was_seen(gateway: Make) -> None:
    g = await gateway(answers(BANG_STREAM, BANG_JSON))
    await g.ask()
    await g.become("unit-a", state="observe")
    found = await g.metrics()
    labels = 'class="short",release="r1",unit="unit-a",verdict="corrupt"'
    assert found[f"semantic_extproc_responses_total{{{labels}}}"] == 1
    assert found['semantic_extproc_marked_total{unit="unit-a"}'] == 1
    assert found['semantic_extproc_unit_state{state="observe",unit="unit-a"}'] == 1
    assert found['semantic_extproc_hold_releases_total{reason="corrupt"}'] == 1


async def test_an_operator_must_name_a_unit_and_a_reason(gateway: Make) -> None:
    g = await gateway()
    assert await g.command("unit-z", "quarantine", "because") == 404
    assert await g.command("unit-a", "quarantine", " ") == 400
    await g.become("unit-a", state="pass")


async def test_one_bad_host_among_siblings_is_drained_alone(gateway: Make) -> None:
    bad = Upstream(answers(BANG_STREAM, BANG_JSON))
    await bad.start()

    def second_host(config: dict[str, Any]) -> None:
        clusters = config["static_resources"]["clusters"]
        cluster = next(c for c in clusters if c["name"] == "unit_a")
        hosts = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
        extra = copy.deepcopy(hosts[0])
        extra["endpoint"]["address"]["socket_address"]["port_value"] = bad.port
        extra["endpoint"]["health_check_config"]["hostname"] = "unit-a@a2"
        extra["metadata"]["filter_metadata"]["semantic.extproc"]["host"] = "a2"
        hosts.append(extra)
        # The front must not eject the unit before the book has found the host.
        front = next(c for c in clusters if c["name"] == "llm")
        front["outlier_detection"]["consecutive_5xx"] = 1000

    g = await gateway(change=second_host)
    try:
        unit: dict[str, Any] = {}
        for _ in range(60):
            assert (await g.ask()).body in (HEALTHY_JSON, OTHER_JSON)
            unit = await g.unit("unit-a")
            if unit["hosts"].get("a2", {}).get("drained"):
                break
        assert unit["hosts"]["a2"]["drained"]
        assert not unit["hosts"]["a1"]["drained"]
        assert unit["state"] != "quarantine"

        async def out() -> bool:
            return (await g.stat("cluster.unit_a.membership_healthy")) == 1

        await eventually(out)
        seen = bad.requests
        for _ in range(10):
            assert (await g.ask()).headers["x-semantic-unit"] == "unit-a"
        assert bad.requests == seen
    finally:
        await bad.stop()
