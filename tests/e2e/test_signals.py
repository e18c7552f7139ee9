"""What the mesh and its operators are told, and what they can say."""

from __future__ import annotations

from tests.e2e.conftest import Make
from tests.e2e.gateway import eventually
from tests.e2e.upstream import BANG_JSON, BANG_STREAM, answers


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
    assert (await g.unit("unit-a"))["state"] == "quarantine"
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
    log = g.log("sidecar")
    assert '"after": "quarantine"' in log
    assert '"repetition.' in log
    assert "Hello" not in log, "the prompt is in the log"


async def test_metrics_tell_what_was_seen(gateway: Make) -> None:
    g = await gateway(answers(BANG_STREAM, BANG_JSON))
    await g.ask()
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
    assert (await g.unit("unit-a"))["state"] == "pass"
