"""What a sidecar finds again after a restart, and what it does without a place to keep it."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from extproc.config import Settings, parse
from extproc.detect import Finding, Kind
from extproc.health import Response, State
from extproc.health.stores import StoreError
from extproc.persistence import Persistence, default_path
from extproc.processor import Services
from extproc.sidecar import make_services

UNITS = "units: [{id: a, release: r1}, {id: b, release: r1}]\n"


def settings(text: str) -> Settings:
    return parse(UNITS + text, "x.yaml")


def at(path: Path) -> Settings:
    return settings(f"store: {{path: {path}}}")


@asynccontextmanager
async def kept(given: Settings) -> AsyncIterator[tuple[Services, Persistence]]:
    services = make_services(given)
    persistence = Persistence(given, services)
    await persistence.start()
    try:
        yield services, persistence
    finally:
        await persistence.stop()


def corrupt(services: Services, unit: str, times: int = 5) -> None:
    finding = Finding("repetition", "period", 64, 16)
    for number in range(times):
        for host in ("h1", "h2"):
            services.record(
                Response(
                    unit, "r1", "short", host, Kind.CORRUPT, (finding,), f"{host}-{number}", 100.0
                )
            )


def values(services: Services) -> dict[str, float]:
    return {
        sample.name: sample.value
        for family in services.metrics.registry.collect()
        for sample in family.samples
    }


async def test_states_evidence_and_an_operator_s_word_are_found_again(tmp_path: Path) -> None:
    given = at(tmp_path / "s.db")
    async with kept(given) as (services, persistence):
        corrupt(services, "a")
        services.announce(services.ledger.hold_out("b", "a driver update", 101.0))
        assert services.ledger.unit_state("a") is State.QUARANTINE
        assert await services.keep()
        before = await persistence.recent(limit=99)
    async with kept(given) as (services, persistence):
        assert services.ledger.unit_state("a") is State.QUARANTINE
        assert services.ledger.held("b") == "a driver update"
        assert await persistence.recent(limit=99) == before
        assert {record.after for record in before} >= {None, State.QUARANTINE}
        assert values(services)["semantic_extproc_store_up"] == 1
        assert services.components["store"]() == f"ok: {tmp_path / 's.db'}"


async def test_a_verification_that_lapsed_meanwhile_is_told_at_the_start(tmp_path: Path) -> None:
    given = at(tmp_path / "s.db")
    async with kept(given) as (services, _):
        now = services.clock()
        services.announce(services.ledger.verify("b", "r1", now + 60, "gates", now))
        assert services.ledger.verified("b")
        assert await services.keep()
    again = make_services(given)
    again.clock = lambda: now + 61
    persistence = Persistence(given, again)
    await persistence.start()
    try:
        assert not again.ledger.verified("b")
        (latest, *_) = await persistence.recent("b")
        assert latest.cause == "lapsed: its time is over"
    finally:
        await persistence.stop()


async def test_a_store_that_was_asked_for_must_work(tmp_path: Path) -> None:
    given = at(tmp_path / "none" / "s.db")
    with pytest.raises(StoreError, match="there is no folder"):
        await Persistence(given, make_services(given)).start()


async def test_a_default_place_that_fails_leaves_memory_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "none"))
    async with kept(settings("")) as (services, persistence):
        corrupt(services, "a")
        assert await services.keep()
        assert await persistence.recent()
        assert services.components["store"]().startswith("ok: memory, because")
    assert "end with this process" in caplog.text


async def test_two_sidecars_on_the_default_place_get_one_file_and_one_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    async with kept(settings("")) as (first, _), kept(settings("")) as (second, _):
        assert "semantic-extproc.db" in first.components["store"]()
        assert "another process has it open" in second.components["store"]()


async def test_memory_is_kept_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    async with kept(settings("store: {kind: memory}")) as (services, persistence):
        corrupt(services, "a")
        assert await services.keep()
        assert await persistence.recent()
        assert services.components["store"]() == "ok: memory, as store.kind says"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("book", [{"version": 99}, {"version": 1}, {}])
async def test_a_book_that_this_version_cannot_read_is_kept_and_told(
    tmp_path: Path, book: dict[str, int]
) -> None:
    path = tmp_path / "s.db"
    async with kept(at(path)):
        pass
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE book SET content = ?", (json.dumps(book),))
    connection.close()
    given = at(path)
    with pytest.raises(StoreError, match="cannot be read"):
        await Persistence(given, make_services(given)).start()
    connection = sqlite3.connect(path)
    assert json.loads(connection.execute("SELECT content FROM book").fetchone()[0]) == book
    connection.close()


@pytest.mark.parametrize("told", [1, [1], [{}], {"a": 1}])
async def test_what_the_fleet_was_told_must_read_as_well(tmp_path: Path, told: object) -> None:
    path = tmp_path / "s.db"
    async with kept(at(path)) as (services, _):
        content = services.ledger.snapshot() | {"told": told}
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE book SET content = ?", (json.dumps(content),))
    connection.close()
    given = at(path)
    with pytest.raises(StoreError, match="cannot be read"):
        await Persistence(given, make_services(given)).start()


def test_the_default_place_is_systemd_s_or_the_user_s(tmp_path: Path) -> None:
    assert default_path({"STATE_DIRECTORY": "/var/lib/x:/y"}) == Path("/var/lib/x") / (
        "semantic-extproc.db"
    )
    made = default_path({"XDG_STATE_HOME": str(tmp_path / "state")})
    assert made == tmp_path / "state" / "semantic-extproc" / "semantic-extproc.db"
    assert stat.S_IMODE(made.parent.stat().st_mode) == 0o700
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"set store\.path"):
        default_path({"XDG_STATE_HOME": str(tmp_path / "file")})


async def test_a_fleet_that_is_away_stops_nobody(tmp_path: Path) -> None:
    given = settings(f"store: {{path: {tmp_path / 's.db'}}}\nfleet: {{url: 'redis://127.0.0.1:1'}}")
    async with kept(given) as (services, _):
        assert services.components["fleet"]().startswith("unreachable, decisions are local")
        corrupt(services, "a")
        assert services.ledger.unit_state("a") is State.QUARANTINE
        assert values(services)["semantic_extproc_fleet_up"] == 0


@pytest.mark.parametrize(
    "text",
    [
        "fleet: {url: 'http://x'}",
        "fleet: {url: 'redis://'}",
        "fleet: {prefix: 'a b'}",
        "fleet: {ttl_seconds: 1}",
        "store: {kind: postgres}",
        "store: {retention_days: 0}",
    ],
)
def test_settings_that_cannot_work_are_refused(text: str) -> None:
    from extproc.config import ConfigError

    with pytest.raises(ConfigError, match=r"x\.yaml:2: (fleet|store)\."):
        settings(text)


def test_a_password_is_not_shown() -> None:
    given = settings("fleet: {url: 'redis://:hunter2@h'}")
    assert "hunter2" not in given.model_dump_json() + repr(given)
