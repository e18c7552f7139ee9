"""Operators' commands against a real admin server."""

from __future__ import annotations

import getpass
import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from aiohttp import web
from typer.testing import CliRunner

from extproc.admin import make_app
from extproc.cli import app
from extproc.cli.operate import changes
from extproc.detect import Finding, Kind
from extproc.health import State
from extproc.health.evidence import Evidence, Subject
from extproc.processor import Services
from extproc.units import Unit
from tests.unit.cli.sidecar import served
from tests.unit.services import corrupt, services_of

UNITS = [
    Unit("unit-a", release="r1", fallback=("m/b:8",)),
    Unit("m/b:8", release="r1", verified=True),
]
NOBODY = "http://127.0.0.1:1"


@pytest.fixture
def services() -> Services:
    return services_of(*UNITS)


@pytest.fixture
def url(services: Services, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with served(lambda: make_app(services, lambda: True)) as address:
        monkeypatch.setenv("SEMANTIC_EXTPROC_ADMIN_URL", address)
        # A proxy for the outside must not be asked for the inside.
        monkeypatch.setenv("http_proxy", NOBODY)
        yield address


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def test_status_shows_every_unit_and_exits_with_0_when_all_is_well(url: str) -> None:
    result = run("status")
    assert result.exit_code == 0
    assert "unit-a" in result.output
    assert "m/b:8" in result.output
    assert "quarantine" not in result.output
    assert "\x1b[" not in result.output


def test_status_exits_with_1_when_something_is_out(url: str, services: Services) -> None:
    services.announce(services.ledger.hold_out("unit-a", "a driver update", 1))
    result = run("status", "--admin", url)
    assert result.exit_code == 1
    assert "quarantine (hard)" in result.output
    assert "a driver update" in result.output


def test_status_as_json_is_what_the_api_says(url: str, services: Services) -> None:
    corrupt(services, "unit-a", 2)
    result = run("status", "--output", "json")
    unit = json.loads(result.output)["units"][0]
    assert unit["id"] == "unit-a"
    assert unit["counts"]["corrupt"] == 2


@pytest.mark.parametrize(
    "command",
    [
        ("status",),
        ("quarantine", "unit-a", "--reason", "x"),
        ("release", "unit-a", "--reason", "x"),
        ("evidence",),
        ("evidence", "1"),
    ],
)
def test_a_sidecar_that_does_not_answer_is_said_with_a_remedy(command: tuple[str, ...]) -> None:
    result = run(*command, "--admin", NOBODY)
    assert result.exit_code == 2
    assert "no sidecar answers at http://127.0.0.1:1" in result.stderr
    assert "--admin" in result.stderr
    assert not result.stdout


@pytest.mark.parametrize("address", ["http://", "http://127.0.0.1:99999", "nonsense://x", "a b"])
def test_an_address_that_is_none_is_no_traceback(address: str) -> None:
    result = run("status", "--admin", address)
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)


def test_something_else_that_answers_is_no_sidecar() -> None:
    async def page(request: web.Request) -> web.Response:
        return web.Response(text="<html>")

    def other() -> web.Application:
        made = web.Application()
        made.router.add_get("/api/units", page)
        return made

    with served(other) as address:
        result = run("status", "--admin", address)
    assert result.exit_code == 2


def test_quarantine_and_release_say_what_changed(url: str, services: Services) -> None:
    result = run("quarantine", "unit-a", "--reason", "a driver update")
    assert result.exit_code == 0
    assert result.output.splitlines()[0] == "unit-a: pass -> quarantine"
    assert "a verified fallback takes its traffic" in result.output
    assert services.ledger.held("unit-a") == f"a driver update (by {getpass.getuser()})"
    again = run("quarantine", "unit-a", "--reason", "still")
    assert again.output.splitlines()[0] == "unit-a: stays in quarantine"
    back = run("release", "unit-a", "--reason", "it is done")
    assert back.exit_code == 0
    assert back.output.splitlines()[0] == "unit-a: quarantine -> pass"
    assert "no longer held" in back.output


def test_an_id_may_hold_a_slash(url: str, services: Services) -> None:
    result = run("quarantine", "m/b:8", "-r", "x")
    assert result.exit_code == 0
    assert "no verified fallback is well" in result.output
    assert services.ledger.unit_state("m/b:8") is State.QUARANTINE


def test_a_unit_that_nobody_knows_is_refused(url: str) -> None:
    result = run("quarantine", "unit-z", "--reason", "x")
    assert result.exit_code == 1
    assert "no unit has the id 'unit-z'" in result.stderr


def test_a_word_needs_a_reason(url: str, services: Services) -> None:
    assert run("quarantine", "unit-a").exit_code == 2
    assert run("quarantine", "unit-a", "--reason", " ").exit_code == 1
    assert services.ledger.held("unit-a") is None


RECORDS = [
    Evidence(
        "2-x",
        Subject.STATE,
        1700000000.0,
        "unit-a",
        "r1",
        "short",
        "*",
        Kind.CORRUPT,
        (Finding("repetition", "period", 64, 16, shape='"!" x 64'),),
        before=State.PASS,
        after=State.QUARANTINE,
        cause="alarmed",
        e_value=12000.0,
    ),
    Evidence("1-x", Subject.VERDICT, 1700000000.0, "unit-a", "r1", "short", "h", Kind.CORRUPT),
]


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Serves RECORDS in the shape of /api/evidence; the queries that came."""
    queries: list[str] = []

    async def latest(request: web.Request) -> web.Response:
        queries.append(request.query_string)
        return web.json_response({"evidence": [record.as_dict() for record in RECORDS]})

    async def one(request: web.Request) -> web.Response:
        found = [record for record in RECORDS if record.id == request.match_info["id"]]
        if not found:
            raise web.HTTPNotFound(text="no record has that id\n")
        return web.json_response(found[0].as_dict())

    def make() -> web.Application:
        made = web.Application()
        made.add_routes([web.get("/api/evidence", latest), web.get("/api/evidence/{id}", one)])
        return made

    with served(make) as address:
        monkeypatch.setenv("SEMANTIC_EXTPROC_ADMIN_URL", address)
        yield queries


def test_the_latest_evidence_is_listed(kept: list[str]) -> None:
    result = run("evidence", "--unit", "unit-a", "--limit", "5")
    assert result.exit_code == 0
    assert kept == ["unit=unit-a&limit=5"]
    assert "pass -> quarantine" in result.output
    assert "alarmed; repetition.period" in result.output


def test_one_record_is_shown_whole(kept: list[str]) -> None:
    result = run("evidence", "2-x")
    assert 'repetition.period 64 (limit 16): "!" x 64' in result.output
    assert "12000.0" in result.output
    as_json = run("evidence", "2-x", "--output", "json")
    assert Evidence.from_dict(json.loads(as_json.output)) == RECORDS[0]


def test_a_record_that_is_not_there_is_said(kept: list[str]) -> None:
    result = run("evidence", "9-x")
    assert result.exit_code == 1
    assert "no record has that id" in result.stderr


def completions(*words: str) -> list[str]:
    """What a shell is offered for the last of ``words``."""
    program = "import sys; sys.argv[0] = 'semantic-extproc'; from extproc.cli import main; main()"
    asked = {
        "_SEMANTIC_EXTPROC_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["semantic-extproc", *words]),
        "COMP_CWORD": str(len(words)),
    }
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, env=os.environ | asked, capture_output=True, text=True, check=False
    )
    assert not done.stderr
    return done.stdout.split()


def test_unit_ids_complete_from_the_sidecar(url: str) -> None:
    assert completions("quarantine", "uni") == ["unit-a"]
    assert completions("release", "m") == ["m/b:8"]


def test_completion_without_a_sidecar_is_empty_not_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SEMANTIC_EXTPROC_ADMIN_URL", NOBODY)
    assert completions("quarantine", "u") == []


def test_watching_as_json_goes_on_until_interrupted(url: str, services: Services) -> None:
    services.announce(services.ledger.hold_out("unit-a", "x", 1))
    command = [sys.executable, "-m", "extproc", "status", "--watch", "--every", "0.2", "-o", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first, second = (json.loads(process.stdout.readline()) for _ in range(2))
        assert first["units"] == second["units"]
        assert second["at"] > first["at"]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 1


def test_a_terminal_gets_colours_and_a_view_that_stays_in_place(
    url: str, services: Services
) -> None:
    services.announce(services.ledger.hold_out("unit-a", "x", 1))
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "extproc", "status", "--watch", "--every", "0.2"]
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "CI")}
    process = subprocess.Popen(
        command, stdout=slave, env=environment | {"TERM": "xterm", "COLUMNS": "160"}
    )
    os.close(slave)
    try:
        text = b""
        stop = threading.Timer(60, process.kill)
        stop.start()
        while text.count(b"unit-a") < 3:
            ready, _, _ = select.select([master], [], [], 60)
            assert ready
            text += os.read(master, 65536)
        assert b"\x1b[1;31m" in text
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 1
        stop.cancel()
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_a_setting_in_the_environment_that_is_no_json_is_a_problem_not_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SEMANTIC_EXTPROC_ADMIN", "http://127.0.0.1:1")
    result = run("config")
    assert result.exit_code == 2
    assert result.stderr.startswith("environment: ")


def test_a_word_that_no_store_could_keep_says_so() -> None:
    unit: dict[str, Any] = {
        "id": "a",
        "state": "pass",
        "held_by_operator": None,
        "classes": {},
        "mode": None,
    }
    said = changes(unit, unit | {"state": "quarantine", "durable": False})
    assert said[-1] == "  the store could not keep it: a restart would forget it"
    assert len(changes(unit, unit | {"state": "quarantine", "durable": True})) == 1


@pytest.mark.parametrize(
    "command", [("status", "--admin"), ("health", "--admin"), ("audit",)], ids=" ".join
)
def test_a_grpc_port_in_place_of_an_admin_port_is_said_in_words(command: tuple[str, ...]) -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        result = CliRunner().invoke(app, [*command, f"http://127.0.0.1:{port}"])
    finally:
        server.stop(None)
    assert result.exit_code == 2
    assert result.stderr.replace("\n", "").isprintable()
    assert "no HTTP/1.1" in result.stderr


def test_an_audit_of_the_sidecars_address_says_whose_is_wanted(url: str) -> None:
    result = CliRunner().invoke(app, ["audit", url])
    assert result.exit_code == 2
    assert "is that Envoy's admin address" in result.stderr


@pytest.mark.parametrize(
    ("said", "id"), [("did you mean unit-a?", "unit_a"), ("there are unit-a, m/b:8", "xyz")]
)
def test_a_misspelt_unit_is_answered_with_the_right_one(url: str, id: str, said: str) -> None:
    for command in (["quarantine", id, "-r", "x"], ["release", id, "-r", "x"], ["probe", id]):
        result = CliRunner().invoke(app, [*command, "--admin", url])
        assert result.exit_code == 1
        assert said in result.stderr
