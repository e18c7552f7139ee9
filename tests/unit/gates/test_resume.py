"""An interrupted run goes on where it stopped, and calls nobody twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.unit.cli.sidecar import served
from tests.unit.gates.fake import Fake, Gates, checks

ROOT = Path(__file__).resolve().parents[3]


class Receiver:
    """A webhook. ``posts``: what it got."""

    def __init__(self, status: int = 200) -> None:
        self.posts: list[dict[str, Any]] = []
        self._status = status

    @contextmanager
    def running(self) -> Iterator[str]:
        async def take(request: web.Request) -> web.Response:
            self.posts.append(await request.json())
            return web.Response(status=self._status)

        def app() -> web.Application:
            made = web.Application()
            made.add_routes([web.post("/hook", take)])
            return made

        with served(app) as url:
            yield f"{url}/hook"


def test_finished_checks_are_not_run_again_while_their_inputs_are_the_same(gates: Gates) -> None:
    fake = Fake()
    with fake.running() as url:
        gates.serve(url)
        first = gates.report("--gates", "3-4")
        asked = len(fake.chats)
        second = gates.report("--gates", "3-4", "--resume")
        assert second["run"] == first["run"]
        assert len(fake.chats) == asked
        assert second["gates"][0]["resumed_checks"] == 1
        assert checks(second)["pass_rate"]["measured"] == checks(first)["pass_rate"]["measured"]
        gates.gate("gate_3_golden_prompt", max_tokens=17)
        third = gates.report("--gates", "3-4", "--resume")
        assert third["gates"][0]["resumed_checks"] == 0
        assert len(fake.chats) == asked + 1
        fresh = gates.report("--gates", "3")
        assert fresh["run"] != first["run"]


def test_what_was_not_answered_is_asked_again(gates: Gates) -> None:
    fake = Fake(status=503)
    with fake.running() as url:
        gates.serve(url)
        assert gates.report("--gates", "3")["exit_code"] == 1
        fake.status = 200
        assert gates.report("--gates", "3", "--resume")["exit_code"] == 0


def test_the_webhook_is_called_once_for_a_run_and_its_conditions(gates: Gates) -> None:
    receiver = Receiver()
    with Fake(answer="no").running() as url, receiver.running() as hook:
        gates.config["rollback"] = f'notify_webhook = "{hook}"\n'
        gates.serve(url)
        first = gates.report("--gates", "1-3")
        again = gates.report("--gates", "1-3", "--resume")
        assert len(receiver.posts) == 1
        assert first["rollback"]["calls"] == [
            {"receiver": "webhook", "outcome": "delivered", "reason": ""}
        ]
        assert again["rollback"]["calls"][0]["outcome"] == "delivered earlier"
        gates.report("--gates", "1-3")
        assert len(receiver.posts) == 2, "another run is another call"
    got = receiver.posts[0]
    assert got["event"] == "rollback"
    assert got["conditions"] == ["gate_3_deterministic_probe_failed"]
    assert got["release"] == "r1"
    assert got["run"] == first["run"]
    assert "0 of 1 prompts" in got["failed_checks"][0]["reason"]


def test_a_refusing_webhook_is_not_called_again_and_the_run_says_so(gates: Gates) -> None:
    receiver = Receiver(status=500)
    with Fake(answer="no").running() as url, receiver.running() as hook:
        gates.config["rollback"] = f'notify_webhook = "{hook}"\n'
        gates.serve(url)
        report = gates.report("--gates", "3")
    assert report["exit_code"] == 1
    assert report["rollback"]["calls"][0]["reason"] == "it answered HTTP 500"
    assert len(receiver.posts) == 1


def test_a_failure_that_is_no_rollback_condition_calls_nobody(gates: Gates) -> None:
    receiver = Receiver()
    with Fake(answer="no").running() as url, receiver.running() as hook:
        gates.config["rollback"] = f'notify_webhook = "{hook}"\n'
        gates.settings["rollback_conditions"] = ["gate_2_logit_drift_exceeded"]
        gates.serve(url)
        assert gates.report("--gates", "3")["exit_code"] == 1
    assert receiver.posts == []


def test_the_deployment_system_is_told_by_a_command_without_a_shell(
    gates: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEY", "sk-abcdef")
    out = gates.folder / "told.json"
    program = (
        "import json, os, sys; json.dump({'in': json.load(sys.stdin), 'argv': sys.argv[2:], "
        "'env': dict(os.environ)}, open(sys.argv[1], 'w'))"
    )
    command = [sys.executable, "-c", program, str(out), "$(id)", "; rm -rf /"]
    with Fake(answer="no", key="sk-abcdef").running() as url:
        gates.config["rollback"] = f"command = {json.dumps(command)}\n"
        gates.serve(url, api_key_env="A_KEY")
        report = gates.report("--gates", "3")
    assert report["rollback"]["calls"][0] == {
        "receiver": "command",
        "outcome": "delivered",
        "reason": "",
    }
    told = json.loads(out.read_text())
    assert told["argv"] == ["$(id)", "; rm -rf /"]
    assert told["in"]["conditions"] == ["gate_3_deterministic_probe_failed"]
    assert told["env"]["SEMANTIC_GATE_RELEASE"] == "r1"
    assert "A_KEY" not in told["env"]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ([sys.executable, "-c", "raise SystemExit(3)"], "exit code 3"),
        (["/no/such/program"], "could not be started"),
        ([sys.executable, "-c", "import time; time.sleep(60)"], "had not ended after 1 s"),
    ],
)
def test_a_command_that_fails_is_said(gates: Gates, command: list[str], reason: str) -> None:
    with Fake(answer="no").running() as url:
        gates.config["rollback"] = f"command = {json.dumps(command)}\ntimeout_sec = 1\n"
        gates.serve(url)
        call = gates.report("--gates", "3")["rollback"]["calls"][0]
    assert call["outcome"] == "failed"
    assert reason in call["reason"]


def test_without_auto_rollback_people_are_told_and_the_deployment_is_left_alone(
    gates: Gates,
) -> None:
    receiver = Receiver()
    with Fake(answer="no").running() as url, receiver.running() as hook:
        gates.config["rollback"] = (
            f'auto_rollback = false\nnotify_webhook = "{hook}"\ncommand = ["/no/such/program"]\n'
        )
        gates.serve(url)
        calls = gates.report("--gates", "3")["rollback"]["calls"]
    assert {call["receiver"]: call["outcome"] for call in calls} == {
        "command": "off",
        "webhook": "delivered",
    }
    assert receiver.posts[0]["auto_rollback"] is False


def test_a_call_that_was_cut_off_is_not_made_twice(gates: Gates) -> None:
    receiver = Receiver()
    with Fake(answer="no").running() as url, receiver.running() as hook:
        gates.config["rollback"] = f'notify_webhook = "{hook}"\n'
        gates.serve(url)
        gates.report("--gates", "3")
        (file,) = (gates.folder / "state" / "runs").glob("*.json")
        content = json.loads(file.read_text())
        content["calls"]["gate_3_deterministic_probe_failed"]["webhook"] = {"outcome": "calling"}
        file.write_text(json.dumps(content))
        calls = gates.report("--gates", "3", "--resume")["rollback"]["calls"]
    assert calls[0]["outcome"] == "unknown"
    assert len(receiver.posts) == 1


def test_a_state_that_cannot_be_read_is_named(gates: Gates) -> None:
    with Fake().running() as url:
        gates.serve(url)
        gates.report("--gates", "3")
        (file,) = (gates.folder / "state" / "runs").glob("*.json")
        for content in ("{", "[]", '{"version": 99}'):
            file.write_text(content)
            code, _, err = gates.run("--gates", "3", "--resume")
            assert code == 2
            assert str(file) in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_state_from_which_the_run_goes_on(
    gates: Gates, number: signal.Signals
) -> None:
    fake = Fake()
    path = gates.folder / "golden.txt"
    path.write_text("".join(f"question {n} => OK\n" for n in range(1, 6)))
    arguments = ["--gates", "3", "--golden", str(path)]
    with fake.running() as url:
        gates.serve(url)
        fake.delay = 0.4
        files = gates.files()
        with subprocess.Popen(
            [sys.executable, "-m", "extproc", "gate", "run", *files, *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            deadline = time.monotonic() + 60
            while len(fake.chats) < 3 and time.monotonic() < deadline:
                time.sleep(0.02)
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
        assert process.returncode == 130, err
        assert "--resume" in err
        assert "Traceback" not in err
        fake.delay = 0.0
        before = len(fake.chats)
        report = gates.report(*arguments, "--resume")
    assert report["exit_code"] == 0
    resumed = report["gates"][0]["resumed_checks"]
    assert resumed >= 2
    assert len(fake.chats) - before == 6 - resumed
