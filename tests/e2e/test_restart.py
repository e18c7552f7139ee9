"""What a killed sidecar finds again, and what it says of a store it cannot use."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from extproc.demo.ports import free_ports
from tests.e2e.conftest import Make
from tests.e2e.gateway import Gateway, eventually
from tests.e2e.upstream import BANG_JSON, BANG_STREAM, answers

BROKEN = answers(BANG_STREAM, BANG_JSON)


async def quarantined(g: Gateway) -> None:
    """Asks until unit-a, which answers garbage, is out."""
    for _ in range(6):
        await g.ask()

    async def out() -> bool:
        return bool((await g.unit("unit-a"))["state"] == "quarantine")

    await eventually(out)


async def records(g: Gateway) -> list[dict[str, Any]]:
    status, found = await g.get("/api/evidence?limit=1000")
    assert status == 200
    kept: list[dict[str, Any]] = found["evidence"]
    return kept


async def test_kill_9_costs_no_state_and_no_evidence(gateway: Make) -> None:
    g = await gateway(BROKEN)
    await quarantined(g)
    assert await g.command("unit-b", "quarantine", "the night shift") == 200
    before, unit = await records(g), await g.unit("unit-a")
    await g.kill()
    await g.serve()
    after, again = await records(g), await g.unit("unit-a")
    assert after[-len(before) :] == before
    assert (again["state"], again["mode"], again["since"]) == (
        unit["state"],
        unit["mode"],
        unit["since"],
    )
    assert again["counts"]["corrupt"] == unit["counts"]["corrupt"]
    assert (await g.unit("unit-b"))["held_by_operator"] == "the night shift"
    change = next(r for r in after if r["subject"] == "state" and r["unit"] == "unit-a")
    assert change["after"] == "quarantine"
    status, one = await g.get(f"/api/evidence/{change['id']}")
    assert (status, one) == (200, change)


async def test_what_the_api_acknowledged_is_there_after_kill_9_at_once(gateway: Make) -> None:
    g = await gateway()
    for number in range(5):
        unit = "unit-a" if number % 2 else "unit-b"
        async with g._session.post(
            f"{g.admin}/api/units/{unit}/quarantine", json={"reason": f"round {number}"}
        ) as response:
            assert (await response.json())["durable"] is True
        await g.kill()
        await g.serve()
        assert (await g.unit(unit))["held_by_operator"] == f"round {number}"


async def test_a_corrupt_store_does_not_keep_the_sidecar_down(gateway: Make) -> None:
    g = await gateway(BROKEN)
    await quarantined(g)
    await g.kill()
    for file in sorted(g.folder.glob("store.db-*")):
        file.unlink()
    (g.folder / "store.db").write_bytes(b"garbage" * 1000)
    await g.serve()
    assert (await g.unit("unit-a"))["state"] == "pass"
    (aside,) = sorted(g.folder.glob("store.db.corrupt-*"))
    assert aside.read_bytes() == b"garbage" * 1000
    assert "is corrupt" in g.log("sidecar")
    status, health = await g.get("/healthz")
    assert status == 200
    assert health["components"]["store"] == f"ok: {g.folder / 'store.db'}"


def serve(folder: Path, store: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    grpc, admin = free_ports(2)
    config = folder / "x.yaml"
    settings = {
        "server": {"workers": 1},
        "grpc": {"address": f"127.0.0.1:{grpc}"},
        "admin": {"address": f"127.0.0.1:{admin}"},
        "store": {"path": str(store)},
    }
    config.write_text(yaml.safe_dump(settings))
    command = [sys.executable, "-m", "extproc", "serve", "--config", str(config)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, env={**os.environ, **environment}
    )


def test_a_store_of_a_newer_version_ends_serve_and_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    connection = sqlite3.connect(path)
    connection.executescript(
        f"PRAGMA application_id = {0x53454D58}; PRAGMA user_version = 2; CREATE TABLE future (x);"
    )
    connection.close()
    before = path.read_bytes()
    result = serve(tmp_path, path)
    assert result.returncode == 1
    assert "newer semantic-extproc" in result.stderr
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["none/s.db", "."])
def test_a_store_that_cannot_be_had_ends_serve_with_the_remedy(tmp_path: Path, name: str) -> None:
    result = serve(tmp_path, tmp_path / name)
    assert result.returncode == 1
    assert "store.path" in result.stderr
    assert "Traceback" not in result.stderr


async def test_a_second_sidecar_on_one_store_is_refused(gateway: Make, tmp_path: Path) -> None:
    g = await gateway()
    result = serve(tmp_path, g.folder / "store.db")
    assert result.returncode == 1
    assert "another process has it open" in result.stderr
    assert (await g.ask()).status == 200
