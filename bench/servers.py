"""The servers that are compared, each in a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench import native, sdk
from extproc.cli.serve import GRPC_EXPERIMENTS

_PROCESS_CPU = 2
"""Of the CPU clock of a process: nanoseconds, where /proc counts ticks (clock_getcpuclockid(3))."""

AS_SET = "no-op as the sidecar is set"
"""The no-op with the sidecar's event loop and settings of gRPC: what is left is its own work."""

Command = Callable[[int, Path], list[str]]
"""Port and a folder for files -> what to run."""


class Server:
    """A server process under measurement."""

    def __init__(self, name: str, command: Command, home: Path) -> None:
        self.name = name
        self.port = free_port()
        self.process = Process(command(self.port, home))

    @property
    def cpu(self) -> float:
        """Seconds of CPU so far, user and system."""
        return self.process.cpu

    @property
    def memory(self) -> int:
        """Resident bytes."""
        return self.process.memory

    def stop(self) -> None:
        """Ends the process."""
        self.process.stop()


class Process:
    """A process whose CPU time and memory the kernel tells."""

    def __init__(self, command: list[str]) -> None:
        environment = {name: v for name, v in os.environ.items() if name != "GRPC_EXPERIMENTS"}
        self._process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    @property
    def cpu(self) -> float:
        """Seconds of CPU so far, user and system."""
        return seconds_of_cpu(self._process.pid)

    @property
    def memory(self) -> int:
        """Resident bytes."""
        pages = Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def stop(self) -> None:
        """Ends it."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def seconds_of_cpu(pid: int) -> float:
    """User and system. Raises OSError when the process is gone."""
    return time.clock_gettime(~pid << 3 | _PROCESS_CPU)


def free_port() -> int:
    """A port of the loopback that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def sidecar(port: int, home: Path) -> list[str]:
    """One sidecar process with a store of its own."""
    config = home / f"extproc-{port}.yaml"
    config.write_text(
        f'server: {{workers: 1}}\ngrpc: {{address: "127.0.0.1:{port}"}}\n'
        'admin: {address: "127.0.0.1:0"}\n'
        f"units: [{{id: unit-a}}]\nstore: {{path: {home / f'{port}.db'}}}\n"
    )
    return [sys.executable, "-m", "extproc", "serve", "--config", str(config)]


def noop(loop: str, experiments: str = "") -> Command:
    """The Python no-op on ``asyncio`` or ``uvloop``, with or without experiments of gRPC."""

    def command(port: int, home: Path) -> list[str]:
        call = [sys.executable, "-m", "bench.noop", f"127.0.0.1:{port}", loop]
        return ["env", f"GRPC_EXPERIMENTS={experiments}", *call] if experiments else call

    return command


def yardsticks(say: Callable[[str], None]) -> dict[str, Command]:
    """All of them by name; ``say`` hears of those that cannot be had on this machine."""
    found: dict[str, Command] = {
        "no-op": noop("asyncio"),
        "no-op uvloop": noop("uvloop"),
        AS_SET: noop("uvloop", GRPC_EXPERIMENTS),
    }
    try:
        binary = str(native.noop())
        found["no-op C++"] = lambda port, home: [binary, f"127.0.0.1:{port}"]
    except native.CannotBuild as problem:
        say(f"no C++ no-op: {problem}")
    try:
        python, script = str(sdk.python()), str(Path(sdk.__file__).absolute())
        found["envoy-extproc-sdk"] = lambda port, home: [python, script, str(port)]
    except sdk.CannotInstall as problem:
        say(f"no envoy-extproc-sdk: {problem}")
    return found
