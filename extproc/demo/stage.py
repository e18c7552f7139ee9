"""Everything that runs: the engines, the sidecar, Envoy."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import aiohttp

from extproc.demo import envoy
from extproc.demo.http import answers
from extproc.demo.processes import Process, Processes, wait_ready
from extproc.demo.topology import LISTENERS, Build, Topology
from extproc.demo.upstream import Command

_READY = 60.0
"""Seconds that any part may take to come up on a busy machine."""


class Stage:
    """Starts the parts in the order in which they need each other. Methods may raise ``Broken``."""

    def __init__(
        self,
        topology: Topology,
        command: Command,
        processes: Processes,
        session: aiohttp.ClientSession,
        say: Callable[[str], None],
    ) -> None:
        self.topology = topology
        self.envoy = envoy.Admin(session, topology.envoy_admin)
        self._command = command
        self._processes = processes
        self._session = session
        self._say = say
        self._engines: dict[Build, Process] = {}

    async def set_up(self) -> None:
        """Engines of both units, the sidecar, then Envoy."""
        topology = self.topology
        topology.write()
        self._say("starting the engines of both units, and the sidecar")
        # The sidecar comes before Envoy: units whose first health check fails start as failed.
        arguments = ["-m", "extproc", "serve", "--config", str(topology.sidecar_file)]
        sidecar = self._processes.start("sidecar", [sys.executable, *arguments])
        health = f"http://127.0.0.1:{topology.sidecar}/healthz"
        await asyncio.gather(
            self.serve(topology.healthy),
            self.serve(topology.fallback),
            wait_ready(sidecar, answers(self._session, health), _READY),
        )
        self._say("starting Envoy")
        gateway = self._processes.start(
            "envoy",
            [
                str(envoy.find_binary()),
                "--config-path",
                str(topology.envoy_file),
                "--concurrency",
                "2",
                "--use-dynamic-base-id",  # another Envoy may run on this machine
                "--service-node",  # hosts from a file need both names
                "demo",
                "--service-cluster",
                "demo",
                "--log-level",
                "warning",
            ],
        )
        await wait_ready(gateway, self._both_in, _READY)

    async def serve(self, build: Build) -> None:
        """Starts a build, and returns when it answers."""
        process = self._processes.start(build.alias, self._command(build))
        self._engines[build] = process
        url = f"http://127.0.0.1:{build.port}/health"
        await wait_ready(process, answers(self._session, url), _READY)

    async def route(self, build: Build) -> None:
        """Makes ``build`` unit A's only host, and returns when Envoy has taken that in."""
        self.topology.route(build)
        key = (LISTENERS[build.unit], envoy.loopback(build.port))
        while key not in (await self.envoy.snapshot()).hosts:
            self._processes.check()
            await asyncio.sleep(0.02)

    async def stop(self, build: Build) -> None:
        """Ends a build that no request needs any more."""
        await asyncio.to_thread(self._processes.stop, self._engines.pop(build))

    def check(self) -> None:
        """Raises ``Broken`` when a part has ended by itself."""
        self._processes.check()

    async def _both_in(self) -> bool:
        try:
            snapshot = await self.envoy.snapshot()
        except (aiohttp.ClientError, TimeoutError):
            return False
        units = [
            snapshot.hosts.get(("llm", envoy.unit_address(name))) for name in LISTENERS.values()
        ]
        return all(host is not None and not host.flags for host in units)
