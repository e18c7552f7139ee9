"""The demo from beginning to end."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from extproc.demo import envoy, sidecar
from extproc.demo.board import Board
from extproc.demo.load import Load
from extproc.demo.processes import Processes
from extproc.demo.stage import Stage
from extproc.demo.summary import Summary, is_held_out, summarize
from extproc.demo.topology import Topology
from extproc.demo.upstream import Upstream, prepare
from extproc.demo.view import View

ROLL_OUT_AT = 0.3
"""Share of the time after which unit A's new release takes over."""

TICK = 0.2
"""Seconds between two looks at sidecar and Envoy."""

OVERTIME = 30.0
"""Seconds that a busy machine gets on top, if unit A is not out by the end."""


@dataclass(frozen=True, slots=True)
class Options:
    """``seconds``: of load. ``keep``: the folder with logs and configuration outlives the demo."""

    seconds: float = 45.0
    upstream: Upstream = Upstream.LLAMACPP
    keep: bool = False


def run(options: Options, view: View) -> Summary:
    """Runs the demo. Leaves nothing behind, whatever happens.

    Raises ``Missing``, ``Broken``, or ``KeyboardInterrupt`` after a signal.
    """
    envoy.find_binary()
    with ExitStack() as stack:
        if options.keep:
            folder = Path(tempfile.mkdtemp(prefix="semantic-extproc-demo-"))
            stack.callback(view.say, f"logs and configuration are in {folder}")
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        command = prepare(options.upstream, folder)
        processes = stack.enter_context(Processes(folder))
        topology = Topology.on_free_ports(folder)

        async def play() -> Summary:
            _leave_on_signals()
            async with aiohttp.ClientSession() as session:
                stage = Stage(topology, command, processes, session, view.say)
                await stage.set_up()
                return await _Play(options, stage, session, view).play()

        try:
            with view:
                return asyncio.run(play())
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None


class _Play:
    """One run on a stage that is set."""

    def __init__(
        self, options: Options, stage: Stage, session: aiohttp.ClientSession, view: View
    ) -> None:
        topology = stage.topology
        self._options = options
        self._stage = stage
        self._view = view
        self._clock: Callable[[], float] = asyncio.get_running_loop().time
        self._load = Load(topology.url, {topology.rollout.alias})
        self._board = Board(
            topology,
            self._load.tally,
            stage.envoy,
            sidecar.Admin(session, topology.sidecar),
            self._say,
            self._clock,
        )
        self._started = 0.0
        self._rolled_out = 0.0
        self._phase = "healthy"

    async def play(self) -> Summary:
        """Load, roll-out, quarantine."""
        options, topology = self._options, self._stage.topology
        self._started = self._clock()
        self._say("phase 1: both units are healthy; unit-a serves, unit-b stands by", strong=True)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._load.run())
            rollout = group.create_task(self._roll_out())
            while self._elapsed() < options.seconds or not rollout.done():
                await self._look()
            if not is_held_out(self._board):
                self._say("unit-a is not out yet: going on for a while")
            while self._elapsed() < options.seconds + OVERTIME and not is_held_out(self._board):
                await self._look()
            self._load.end()
        await self._board.refresh()
        return summarize(
            self._board,
            topology.fallback.alias,
            self._rolled_out,
            self._elapsed(),
            options.upstream.value,
        )

    async def _roll_out(self) -> None:
        topology, stage = self._stage.topology, self._stage
        at = self._started + ROLL_OUT_AT * self._options.seconds
        await asyncio.sleep(at - 2.0 - self._clock())
        self._say("release r2 of unit-a is being started beside r1")
        await stage.serve(topology.rollout)
        await asyncio.sleep(at - self._clock())
        self._phase = "roll-out"
        self._say("phase 2: unit-a moves to release r2, which is corrupt", strong=True)
        self._load.hold()
        await stage.route(topology.rollout)
        await self._load.idle()
        await stage.stop(topology.healthy)
        self._rolled_out = self._clock()
        self._phase = "r2 answers"
        self._say("r1 has finished its answers and is gone; all clients ask at once")
        self._load.release_together()

    async def _look(self) -> None:
        await self._board.refresh()
        self._stage.check()
        if is_held_out(self._board) and self._phase != "unit-b serves":
            self._phase = "unit-b serves"
            self._say("phase 3: unit-a is out by both ways; unit-b serves", strong=True)
        self._view.show(self._board, self._elapsed(), self._options.seconds, self._phase)
        await asyncio.sleep(TICK)

    def _elapsed(self) -> float:
        return self._clock() - self._started

    def _say(self, text: str, strong: bool = False) -> None:
        self._view.say(f"{self._elapsed():6.1f} s  {text}", strong)


def _leave_on_signals() -> None:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
