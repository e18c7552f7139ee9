"""``semantic-extproc probe`` and ``status``, against a real admin server and a scripted engine."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from typer.testing import CliRunner

from extproc.admin import make_app
from extproc.admin.probes import probe_routes
from extproc.cli import app
from extproc.probes import Target
from extproc.probes.kinds import NAMES
from extproc.probes.matrix import Subject
from extproc.probes.prober import Prober
from tests.unit.cli.sidecar import served
from tests.unit.probes.engine import Engine
from tests.unit.probes.prober import BANDS, QUICK, UNIT
from tests.unit.services import services_of


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def server(engine: Engine) -> Iterator[str]:
    with served(lambda: engine.serve().application()) as url:
        yield url


@pytest.fixture
def sidecar(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The admin server of a sidecar that probes by hand alone."""

    def make() -> web.Application:
        made = services_of(UNIT)
        settings = replace(QUICK, interval=86_400, long_tokens=8192)
        prober = Prober(made, [Subject(UNIT, Target(server))], BANDS, settings)
        for context in ("short", "long"):
            prober.matrix.deployment.failed(("u", context), made.clock() + 3600)
        made.probe_summary = prober.view.summary
        admin = make_app(made, lambda: True)
        admin.add_routes(probe_routes(prober))

        async def life(_: web.Application) -> AsyncIterator[None]:
            await prober.start()
            yield
            await prober.stop()

        admin.cleanup_ctx.append(life)
        return admin

    with served(make) as url:
        monkeypatch.setenv("SEMANTIC_EXTPROC_ADMIN_URL", url)
        yield url


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def lines(done: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_unit_is_probed_by_the_sidecar(sidecar: str) -> None:
    done = run("probe", "u")
    assert done.exit_code == 0, done.output
    assert "passed  u short golden" in done.stdout
    assert "14 probes: 12 passed, 2 skipped" in done.stdout
    shown = run("status")
    assert "12 passed" in shown.stdout
    assert "probes" in shown.stdout


def test_kinds_and_classes_are_chosen(sidecar: str) -> None:
    done = run("probe", "--kind", "golden", "--kind", "json", "--class", "long", "--json")
    assert done.exit_code == 0, done.output
    found = [(each["unit"], each["class"], each["kind"]) for each in lines(done)]
    assert found == [("u", "long", "golden"), ("u", "long", "json")]


def test_what_failed_is_said_and_counted(sidecar: str, engine: Engine) -> None:
    engine.sick = True
    done = run("probe", "u", "--class", "short")
    assert done.exit_code == 1
    assert "failed  u short chat" in done.stdout
    assert "counted as corrupt verdicts" in done.stdout
    assert "!!!!" not in done.stdout
    assert "failed" in run("status").stdout


def test_results_are_shown_with_their_release(sidecar: str) -> None:
    run("probe", "u", "--kind", "golden")
    from extproc.cli.admin import Api

    found = Api(sidecar).get("/api/units/u/probes")
    assert {result["release"] for result in found["results"]} == {"r1"}
    assert {result["current"] for result in found["results"]} == {True}
    assert found["summary"]["passed"] == 2


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["probe", "nobody"], 1, "no unit has the id 'nobody'; there are u"),
        (["probe", "u", "--kind", "guess"], 2, "golden, chat"),
        (["probe", "u", "--class", "huge"], 2, "long, short"),
        (["probe", "--url", "http://h", "--config", "x.yaml"], 2, "exclude each other"),
        (["probe", "--model", "m"], 2, "belongs to --url"),
        (["probe", "--url", "localhost:8000"], 2, "write http://host:port"),
        (["probe", "--url", "http://h", "--api-key-env", "UNSET_KEY"], 2, "UNSET_KEY is not set"),
        (["probe", "--url", "http://h", "--golden", "/no/such/file"], 2, "No such file"),
    ],
)
def test_a_mistake_is_explained(sidecar: str, arguments: list[str], code: int, said: str) -> None:
    done = run(*arguments)
    assert done.exit_code == code
    assert said in done.output
    assert "Traceback" not in done.output


def test_a_run_of_what_is_not_offered_is_refused_by_the_api(sidecar: str) -> None:
    from extproc.cli.admin import Api, Refused

    with pytest.raises(Refused, match="must be a list of these"):
        list(Api(sidecar).lines("/api/units/u/probes/run", {"kinds": ["guess"]}, 5))


def test_a_server_is_probed_without_a_sidecar(server: str) -> None:
    done = run("probe", "--url", f"{server}/v1", "--json")
    assert done.exit_code == 0, done.output
    assert [each["kind"] for each in lines(done)] == 2 * list(NAMES)


def test_a_units_settings_are_enough(server: str, tmp_path: Path) -> None:
    golden = tmp_path / "golden.yaml"
    golden.write_text("- {prompt: Reply with exactly a word, expected: OK}\n")
    config = tmp_path / "extproc.yaml"
    config.write_text(
        f"probes: {{golden: {golden}}}\n"
        f"units:\n- id: unit-a\n  probe: {{base_url: '{server}', kinds: [golden]}}\n- id: unit-b\n"
    )
    done = run("probe", "--config", str(config), "--json")
    assert done.exit_code == 0, done.output
    assert [each["unit"] for each in lines(done)] == ["unit-a", "unit-a"]
    done = run("probe", "unit-b", "--config", str(config))
    assert done.exit_code == 2
    assert "no probe.base_url" in done.output


def test_a_server_that_is_away_is_no_traceback() -> None:
    done = run("probe", "--url", "http://127.0.0.1:9", "--kind", "golden")
    assert done.exit_code == 2
    assert "nobody listens there" in done.stdout
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("probe", "said"),
    [
        ("{base_url: 'localhost:8000'}", "extproc.yaml:3: units[0].probe.base_url: write http://"),
        ("{base_url: 'http://u:geheim@h'}", "units[0].probe.base_url: holds a user or password"),
        ("{base_url: 'http://h', kinds: [guess]}", "units[0].probe.kinds[0]"),
        ("{base_url: 'http://h', api_key: abc}", "units[0].probe.api_key: no such setting"),
        ("{base_url: 'http://h', tls: {ca_file: /no/file}}", "tls.ca_file: cannot be read"),
    ],
)
def test_settings_of_a_probe_are_checked_with_their_place(
    tmp_path: Path, probe: str, said: str
) -> None:
    config = tmp_path / "extproc.yaml"
    config.write_text(f"units:\n- id: u\n  probe: {probe}\n")
    done = run("config", str(config))
    assert done.exit_code == 2
    assert said in done.output
    assert "geheim" not in done.output


def test_a_file_of_golden_prompts_is_checked_with_the_settings(tmp_path: Path) -> None:
    golden = tmp_path / "golden.yaml"
    golden.write_text("- {prompt: a}\n")
    config = tmp_path / "extproc.yaml"
    config.write_text(f"probes: {{golden: {golden}}}\n")
    done = run("config", str(config))
    assert done.exit_code == 2
    assert "extproc.yaml:1: probes.golden:" in done.output
    assert "[0].expected" in done.output
