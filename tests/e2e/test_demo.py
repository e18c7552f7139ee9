"""The main job, as a user runs it: a corrupt release is rolled out, and no client sees it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEMO = [sys.executable, "-m", "extproc", "demo"]


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}


def run(folder: Path, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [*DEMO, "--json", *arguments],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check(summary: dict[str, Any]) -> None:
    assert summary["corrupt_delivered"] == 0
    assert summary["errors"] == 0
    assert summary["corrupt_generated"] >= 3
    assert summary["retried_to_fallback"] >= summary["corrupt_generated"]
    assert summary["corrupt_seen"] == summary["corrupt_generated"]
    assert summary["unit_a_state"] == "quarantine"
    assert summary["unit_a_mode"] == "hard"
    assert summary["unit_a_envoy_flags"] == "/failed_active_hc/failed_outlier_check"
    assert summary["unit_b_state"] == "pass"
    assert summary["unit_b_answers"] > summary["corrupt_generated"]
    assert summary["seconds_to_quarantine"] > 0


@pytest.mark.timeout(180)
def test_no_client_sees_the_corrupt_release_of_the_recorded_engines(tmp_path: Path) -> None:
    summary = run(tmp_path, "--seconds", "12", "--upstream", "recorded")
    check(summary)
    assert summary["requests"] > 50
    assert list(tmp_path.iterdir()) == [], "files were left behind"


@pytest.mark.model
@pytest.mark.timeout(300)
def test_no_client_sees_the_corrupt_release_of_a_real_model(tmp_path: Path) -> None:
    summary = run(tmp_path, "--seconds", "20")
    check(summary)
    assert summary["upstream"] == "llamacpp"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(
            [*DEMO, "--upstream", "recorded"],
            cwd=tmp_path,
            env=environment(tmp_path),
            stdout=subprocess.DEVNULL,
            stderr=said,
        ) as process,
    ):
        deadline = time.monotonic() + 60
        while "phase 1" not in _text(said):
            assert process.poll() is None, _text(said)
            assert time.monotonic() < deadline, _text(said)
            time.sleep(0.1)
        started = _children(process.pid)
        process.send_signal(number)
        assert process.wait(30) == 130
        assert "interrupted" in _text(said)
    assert len(started) >= 4, "engines, sidecar and Envoy were expected"
    assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]
    assert list(tmp_path.iterdir()) == []


def _text(file: Any) -> str:
    file.seek(0)
    return str(file.read())


def _children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
            if int(parent) == pid:
                found.append(int(entry.name))
    return found
