"""The parent of the authority and the workers: starts them, and starts them again.

It reads no answer and holds no state, so that little can end it. What it counts, the authority
exports. If it dies all the same, the others see the end of their standard input, drain and end:
whoever started it starts everything anew.

Rules:
- A process that ends is started again: at once, then after pauses that double. One that cannot
  even start for the first time (an address in use, a store that is not there) ends the sidecar.
- A process that hangs is told to say where it stands, and killed.
- On SIGTERM the workers drain first; the authority hears the last of them, then ends.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from extproc import logs
from extproc.config import Settings
from extproc.pulse import Pulses
from extproc.reload import Reload
from extproc.signals.processes import Processes
from extproc.workers.child import AUTHORITY, Spec

log = logging.getLogger(__name__)

PAUSES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Seconds before a process is started again, by how often that was needed lately."""

WELL_SECONDS = 30.0
"""What ran for so long was well: its next end is a first one."""

LOOK_SECONDS = 0.5
START_SECONDS = 120.0
"""A process that has not begun to serve by then hangs."""

GRACE_SECONDS = 15.0
"""What a drain may take beyond ``grpc.drain_seconds``: to tell the authority the last of it."""


class Failed(Exception):
    """A process could not start; it has said why."""


class Child:
    """One process, as often as it is started."""

    def __init__(self, name: str, index: int, slot: int) -> None:
        self.name = name
        self.index = index
        self.slot = slot
        self.ever_ready = False
        self.hung = False
        self.process: asyncio.subprocess.Process | None = None
        self._dismissed = False

    def wanted(self) -> bool:
        """Whether it is to be started again when it ends."""
        return not self._dismissed

    def dismiss(self) -> None:
        """Asks it to end, and not to be started again."""
        self._dismissed = True
        self.signal(signal.SIGTERM)

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal, if there is a process."""
        if self.process is not None and self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)

    def say(self, line: bytes) -> None:
        """Writes to its standard input, if there is a process."""
        pipe = self.process.stdin if self.process is not None else None
        if pipe is not None and not pipe.is_closing():
            pipe.write(line)


class Supervisor:
    """``text``: of the configuration at ``path``, which came to ``settings``. ``run`` raises
    Failed, and OSError when there is no folder for the link."""

    def __init__(self, path: Path | None, text: str, settings: Settings) -> None:
        self._path = path
        self._first = self._text = text
        self._settings = settings
        self._counts = Processes()
        self._salt = os.urandom(16).hex()
        self._stop = asyncio.Event()
        self._failed = False
        workers = settings.workers
        self._pulses = Pulses.make(workers + 1)
        self._slots = workers + 1
        self._authority = Child(AUTHORITY, -1, workers)
        self._workers = [Child(f"worker-{index}", index, index) for index in range(workers)]
        self._link = ""
        self._reload = Reload(path, settings, self._taken, self._counts, self._tell_counts)

    async def run(self) -> None:
        """Until SIGTERM or SIGINT, and the end of the drain; a second one ends that."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_end)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        folder = tempfile.mkdtemp(
            prefix="semantic-extproc-",
            dir=os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0] or None,
        )
        self._link = str(Path(folder) / "link")
        beside = [asyncio.create_task(self._look(), name="look")]
        if self._settings.server.watch:
            beside.append(asyncio.create_task(self._reload.watch(), name="watch"))
        log.info("starting an authority and %d workers", len(self._workers))
        try:
            keeping = {
                child: asyncio.create_task(self._keep(child), name=child.name)
                for child in (self._authority, *self._workers)
            }
            for task in keeping.values():
                task.add_done_callback(self._on_kept)
            await self._stop.wait()
            seconds = 0.0 if self._failed else self._settings.grpc.drain_seconds
            await self._end(self._workers, keeping, seconds + GRACE_SECONDS)
            await self._end([self._authority], keeping, GRACE_SECONDS)
        finally:
            for task in beside:
                task.cancel()
            shutil.rmtree(folder, ignore_errors=True)
        if self._failed:
            raise Failed

    # -- one process ----------------------------------------------------------------------------

    async def _keep(self, child: Child) -> None:
        """Starts a process again for as long as it is wanted."""
        clock = asyncio.get_running_loop().time
        ends = 0
        while child.wanted():
            started = clock()
            child.hung = False
            try:
                process = await self._start(child)
            except OSError as error:  # no memory, no process ids left
                log.error("%s cannot be started: %s", child.name, error.strerror)
                await asyncio.sleep(1.0)
                continue
            if not child.wanted():  # since a moment ago
                child.signal(signal.SIGTERM)
            code = await process.wait()
            child.ever_ready = child.ever_ready or self._pulses.last(child.slot) > 0
            self._pulses.clear(child.slot)
            if not child.wanted():
                return
            if code > 0 and not child.ever_ready:
                self._failed = True
                self._stop.set()
                return
            cause = "hung" if child.hung else "killed" if code < 0 else "exited"
            ends = 0 if clock() - started >= WELL_SECONDS else ends
            pause = PAUSES[min(ends, len(PAUSES) - 1)]
            ends += 1
            self._counts.restarts[child.name, cause] += 1
            log.error(
                "%s %s (%s) and is started again%s",
                child.name,
                "hung" if child.hung else "ended",
                f"signal {-code}" if code < 0 else f"code {code}",
                f" in {pause:g} s" if pause else "",
                extra={"cause": cause},
            )
            self._tell_counts()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), pause)

    def _on_kept(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a fault of the supervisor", exc_info=error)
            self._failed = True
            self._stop.set()

    async def _start(self, child: Child) -> asyncio.subprocess.Process:
        command = (sys.executable, "-m", "extproc.workers.child", child.name)
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, pass_fds=(self._pulses.descriptor,)
        )
        spec = Spec(
            child.name,
            child.index,
            child.slot,
            self._slots,
            self._pulses.descriptor,
            self._link,
            self._first,
            self._text,
            str(self._path or "environment"),
            self._salt,
            self._counts.as_dict(),
        )
        child.process = process
        child.say(spec.line())
        return process

    # -- all of them ----------------------------------------------------------------------------

    async def _look(self) -> None:
        """Kills what hangs. Only time that this very process was awake in counts."""
        clock = asyncio.get_running_loop().time
        silent: dict[Child, float] = {}
        seen: dict[Child, float] = {}
        looked = clock()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            passed, looked = min(clock() - looked, 2 * LOOK_SECONDS), clock()
            for child in (self._authority, *self._workers):
                if child.process is None or child.process.returncode is not None:
                    silent[child] = 0.0
                    continue
                beat = self._pulses.last(child.slot)
                silent[child] = silent.get(child, 0.0) + passed if beat == seen.get(child) else 0.0
                seen[child] = beat
                limit = self._settings.server.hang_seconds if beat else START_SECONDS
                if silent[child] >= limit and not child.hung:
                    child.hung = True
                    await self._kill(child, silent[child])

    async def _kill(self, child: Child, seconds: float) -> None:
        log.error("%s has done nothing for %.1f s: it is ended", child.name, seconds)
        child.signal(signal.SIGUSR2)  # where it stands, to standard error
        await asyncio.sleep(0.2)
        child.signal(signal.SIGKILL)

    async def _end(
        self, children: Iterable[Child], keeping: dict[Child, asyncio.Task[None]], within: float
    ) -> None:
        children = list(children)
        for child in children:
            child.dismiss()
        tasks = [keeping[child] for child in children]
        await asyncio.wait(tasks, timeout=within)
        for child in children:
            if child.process is not None and child.process.returncode is None:
                log.error("%s did not end within %g s: it is killed", child.name, within)
                child.signal(signal.SIGKILL)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_end(self) -> None:
        if self._stop.is_set():  # a second time: cut the drain short
            for child in self._workers:
                child.signal(signal.SIGTERM)
        self._stop.set()

    def _taken(self, settings: Settings, text: str) -> None:
        self._text = text
        logs.configure(settings.log.level, settings.log.format, "supervisor")
        for child in (self._authority, *self._workers):
            child.say(_said(text=text))

    def _tell_counts(self) -> None:
        self._authority.say(_said(processes=self._counts.as_dict()))


def _said(**what: object) -> bytes:
    return json.dumps(what).encode() + b"\n"
