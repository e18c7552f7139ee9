"""Processes of the demo: started, waited for, and gone at the end whatever happens.

Three nets, each for what slips through the one before: every process is ended when the ``with``
block is left; a signal to the demo leaves that block; and the kernel ends a process whose parent
was killed outright. Each has a session of its own, so Ctrl-C reaches only the demo, which then
ends them.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from extproc.config.names import PREFIX
from extproc.demo.errors import Broken

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
"""Loaded here: between fork and exec only the call itself is safe."""

TAIL_LINES = 25


class Process:
    """One running process and its log."""

    def __init__(self, name: str, popen: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.pid = popen.pid
        self._popen = popen
        self._log = log

    @property
    def running(self) -> bool:
        return self._popen.poll() is None

    @property
    def code(self) -> int | None:
        """How it ended: minus the signal that ended it; None while it runs."""
        return self._popen.poll()

    def tail(self) -> str:
        """The end of its log."""
        lines = self._log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        return "\n".join(f"  {self.name}| {line}" for line in lines)

    def check(self) -> None:
        """Raises ``Broken`` when it has ended by itself."""
        if (code := self._popen.poll()) is not None:
            raise Broken(f"{self.name} ended by itself with code {code}", self.tail())

    def ask(self) -> None:
        """Asks it to end."""
        if self.running:
            self._popen.terminate()

    def stop(self, grace: float = 5.0) -> None:
        """Asks it to end, and after ``grace`` seconds does not ask."""
        self.ask()
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(grace)
        # Its session may hold workers of its own, also when it has ended itself.
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()


class Processes:
    """Use as a context manager, in the main thread: the kernel's net hangs on the thread."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._all: list[Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._all:
            process.ask()
        for process in self._all:
            process.stop()

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> Process:
        """Starts ``command``; both its outputs go to ``<logs>/<name>.log``.

        ``environment`` comes on top of our own, without the settings of a sidecar of the user's.
        """
        log = self._logs / f"{name}.log"
        parent = os.getpid()
        inherited = {key: text for key, text in os.environ.items() if not key.startswith(PREFIX)}
        with log.open("wb") as out:
            popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**inherited, **(environment or {})},
                start_new_session=True,
                preexec_fn=lambda: _die_with(parent),
            )
        process = Process(name, popen, log)
        self._all.append(process)
        return process

    def check(self) -> None:
        """Raises ``Broken`` when one of them has ended by itself."""
        for process in self._all:
            process.check()

    def stop(self, process: Process) -> None:
        """Ends one of them before the others."""
        self._all.remove(process)
        process.stop()


async def wait_ready(
    process: Process, ready: Callable[[], Awaitable[bool]], seconds: float = 60.0
) -> None:
    """Waits until ``ready`` says so. Raises ``Broken`` if the process ends, or time runs out."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + seconds
    while not await ready():
        process.check()
        if clock() > deadline:
            raise Broken(f"{process.name} was not ready within {seconds:.0f} s", process.tail())
        await asyncio.sleep(0.05)


def _die_with(parent: int) -> None:
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before the call above
            os._exit(1)
