"""A configuration that is read again: taken, or refused without any change."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from extproc import reload as reloading
from extproc.assembly import make_services, reconfigure
from extproc.config import Settings, load
from extproc.detect import Kind
from extproc.health import Response, State
from extproc.reload import Reload
from extproc.signals.processes import Processes
from tests.waiting import until

FIRST = "units: [{id: a, release: r1}]\nhold: {tokens: 8}\nadmin: {address: ':1'}\n"


class Running:
    """A reload of a file, and what it handed over."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_text(FIRST)
        self.first = load(path)
        self.counts = Processes()
        self.taken: list[Settings] = []
        self.reload = Reload(path, self.first, lambda s, _: self.taken.append(s), self.counts)

    def write(self, text: str) -> None:
        self.path.write_text(text)


@pytest.fixture
def running(tmp_path: Path) -> Running:
    return Running(tmp_path / "x.yaml")


def test_a_good_file_is_handed_over(running: Running) -> None:
    running.write(FIRST.replace("8", "9"))
    running.reload()
    assert running.taken[0].hold.tokens == 9
    assert running.counts.reloads == {"ok": 1, "refused": 0}


def test_what_is_taken_are_settings_that_exist() -> None:
    assert set(Settings.model_fields) >= reloading.TAKEN


@pytest.mark.parametrize("text", ["hold: {tokens: 0}", "units: [", "nonsense: 1", None])
def test_a_bad_file_changes_nothing_and_is_told(
    running: Running, text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    before = running.counts.reloaded
    if text is None:
        running.path.unlink()
    else:
        running.write(text)
    running.reload()
    assert not running.taken
    assert running.counts.reloads == {"ok": 0, "refused": 1}
    assert running.counts.reloaded == before
    assert str(running.path) in caplog.text


def test_what_only_a_restart_changes_stays_and_is_named(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    running.write(
        FIRST.replace("8", "9").replace(":1", ":2")
        + "grpc: {drain_seconds: 7}\nwebhooks: [{name: w, url: 'http://x'}]\n"
    )
    running.reload()
    taken = running.taken[0]
    assert (taken.admin.address, taken.grpc, taken.webhooks) == (
        ":1",
        running.first.grpc,
        running.first.webhooks,
    )
    assert taken.hold.tokens == 9
    assert "only a restart changes grpc.drain_seconds, admin.address, webhooks: " in caplog.text


async def test_a_changed_file_is_read_by_itself(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reloading, "LOOK_SECONDS", 0.01)
    watching = asyncio.create_task(running.reload.watch())
    await asyncio.sleep(0.05)
    running.path.unlink()
    await asyncio.sleep(0.05)
    fresh = running.path.with_suffix(".new")
    fresh.write_text(FIRST.replace("8", "11"))
    fresh.replace(running.path)  # as editors and Kubernetes do
    await until(lambda: bool(running.taken))
    watching.cancel()
    assert running.taken[0].hold.tokens == 11
    assert running.counts.reloads == {"ok": 1, "refused": 0}


def test_what_is_known_of_units_outlives_a_reload(running: Running) -> None:
    services = make_services(running.first)
    registry, ledger = services.registry, services.ledger
    services.record(Response("a", "r1", "short", "h", Kind.CLEAN, (), "", 1.0))
    services.announce(ledger.hold_out("a", "why not", 1.0))
    running.write(
        "units: [{id: a, release: r1, sample: 0.5}, {id: b, release: r7, clusters: [cb]}]\n"
        "health: {alpha: 0.001, pair_seconds: 1}\n"
    )
    reconfigure(services, load(running.path))
    assert services.registry is registry
    assert services.ledger is ledger
    assert ledger.state("a", "short") is State.QUARANTINE
    assert sum(track.counts.total() for _, _, track in ledger.tracks("a")) == 1
    assert ledger.settings.alpha == 0.001
    assert ledger.release("b") == "r7"
    assert registry.resolve("cb", {}, {}).unit == "b"
