"""Nothing that the demo starts outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from extproc.demo.errors import Broken
from extproc.demo.processes import Process, Processes, wait_ready

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print('deaf', flush=True); time.sleep(60)",
]
PARENT_OF = [
    sys.executable,
    "-c",
    "import subprocess, sys, time; child = subprocess.Popen([sys.executable, '-c',"
    "'import time; time.sleep(60)']); print(child.pid, flush=True); time.sleep(60)",
]


def gone(pid: int) -> bool:
    """Whether a process has ended; one that waits to be reaped by init has."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


def wait_gone(pid: int) -> bool:
    deadline = time.monotonic() + 20
    while not gone(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def said(log: Path) -> str:
    while not (text := log.read_text()):
        time.sleep(0.02)
    return text


def test_all_end_with_the_block_also_after_an_error(tmp_path: Path) -> None:
    started: list[Process] = []

    def use() -> None:
        with Processes(tmp_path) as processes:
            started.extend(processes.start(name, SLEEP) for name in ("one", "two"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        use()
    assert len(started) == 2
    assert all(gone(process.pid) for process in started)


def test_a_process_that_does_not_listen_is_ended_nevertheless(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        process = processes.start("stubborn", STUBBORN)
        said(tmp_path / "stubborn.log")
        process.stop(grace=0.1)
    assert gone(process.pid)


def test_children_of_a_process_end_with_it(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        processes.start("parent", PARENT_OF)
        child = int(said(tmp_path / "parent.log"))
        assert not gone(child)
    assert wait_gone(child)


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux")
def test_a_killed_parent_takes_its_processes_along(tmp_path: Path) -> None:
    program = textwrap.dedent(f"""
        import sys, time
        from pathlib import Path
        from extproc.demo.processes import Processes
        with Processes(Path({str(tmp_path)!r})) as processes:
            print(processes.start("sleep", {SLEEP!r}).pid, flush=True)
            time.sleep(60)
    """)
    root = str(Path(__file__).resolve().parents[3])
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": root},
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert not gone(child)
        parent.send_signal(signal.SIGKILL)
    assert wait_gone(child)


async def test_a_process_that_ends_at_once_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    async def never() -> bool:
        return False

    with Processes(tmp_path) as processes:
        process = processes.start("short", [sys.executable, "-c", "raise SystemExit('no luck')"])
        with pytest.raises(Broken, match="ended by itself with code 1") as broken:
            await wait_ready(process, never)
        assert "short| no luck" in broken.value.tail
        with pytest.raises(Broken):
            processes.check()


async def test_a_process_that_never_gets_ready_is_told(tmp_path: Path) -> None:
    async def never() -> bool:
        return False

    with Processes(tmp_path) as processes:
        process = processes.start("slow", SLEEP)
        with pytest.raises(Broken, match="not ready"):
            await wait_ready(process, never, seconds=0.1)


def test_settings_of_a_sidecar_in_the_environment_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEMANTIC_EXTPROC_GRPC__ADDRESS", ":1")
    command = [sys.executable, "-c", "import os; print(sorted(os.environ))"]
    with Processes(tmp_path) as processes:
        process = processes.start("printer", command, {"ADDED": "1"})
        while process.running:
            time.sleep(0.02)
    text = (tmp_path / "printer.log").read_text()
    assert "ADDED" in text
    assert "PATH" in text
    assert "SEMANTIC_EXTPROC" not in text
