"""Real Envoy, the real sidecar, and scripted engines behind them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import aiohttp
import yaml

from extproc.config.server import worker_addresses
from extproc.demo.envoy import find_binary, standalone, with_ports, with_workers
from extproc.demo.http import answers, get_json
from extproc.demo.ports import free_base, free_ports, worker_ports
from extproc.demo.processes import Process, Processes, wait_ready
from tests.e2e.upstream import Upstream

CHAT = "/v1/chat/completions"


class Got(NamedTuple):
    """What the client received: to the byte, and whether to the end."""

    status: int
    headers: dict[str, str]
    body: bytes
    complete: bool
    seconds: float


@dataclass(frozen=True)
class Setup:
    """What is run, with the ports of ``envoy/standalone``. ``files`` go beside the configuration,
    their ports replaced as well."""

    settings: dict[str, Any]
    envoy: dict[str, Any]
    files: dict[str, Any] = field(default_factory=dict)
    binary: Path | None = None
    two_tier: bool = True


def shipped() -> Setup:
    """The standalone configuration."""
    settings, envoy = (
        yaml.safe_load((standalone() / name).read_text()) for name in ("extproc.yaml", "envoy.yaml")
    )
    return Setup(settings, envoy)


class Gateway:
    """A configuration on free ports. ``a`` serves, ``b`` is its verified fallback."""

    def __init__(
        self,
        folder: Path,
        a: Upstream,
        b: Upstream,
        sidecar: dict[str, Any] | None = None,
        change: Callable[[dict[str, Any]], None] | None = None,
        setup: Setup | None = None,
        workers: int = 1,
        environment: dict[str, str] | None = None,
    ) -> None:
        self._setup = setup or shipped()
        self.folder = folder
        self.a, self.b = a, b
        self._sidecar = sidecar or {}
        self._change = change
        self.workers = workers
        self._environment = environment
        self._ports: dict[int, int] = {}
        self._stack = AsyncExitStack()
        self._processes: Processes
        self._session: aiohttp.ClientSession
        self.process: Process
        self.envoy_process: Process
        self.front = self.admin = self.envoy = ""

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def _start(self) -> None:
        self._processes = self._stack.enter_context(Processes(self.folder))
        self._session = await self._stack.enter_async_context(
            aiohttp.ClientSession(
                auto_decompress=False, timeout=aiohttp.ClientTimeout(total=60), read_bufsize=1 << 20
            )
        )
        for upstream in (self.a, self.b):
            await upstream.start()
            self._stack.push_async_callback(upstream.stop)
        grpc = free_base(self.workers)
        front, envoy, admin = free_ports(3, worker_ports(grpc, self.workers))
        self.front = f"http://127.0.0.1:{front}"
        self.admin = f"http://127.0.0.1:{admin}"
        await self._start_sidecar(grpc, admin)
        ports = {10000: front, 9901: envoy, 18080: grpc, 18081: admin}
        self._ports = {**ports, 8001: self.a.port, 8002: self.b.port}
        await self.start_envoy()

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _start_sidecar(self, grpc: int, admin: int) -> None:
        settings = dict(self._setup.settings)
        options = dict(self._sidecar)
        grpc_settings: dict[str, Any] = {"address": f"127.0.0.1:{grpc}", "drain_seconds": 20}
        if "tls" in options:
            grpc_settings["tls"] = options.pop("tls")
        grpc_settings |= options.pop("grpc", {})
        settings |= {
            "grpc": grpc_settings,
            "admin": {"address": f"127.0.0.1:{admin}", **options.pop("admin", {})},
            "store": {"path": str(self.folder / "store.db")},
            "server": {"workers": self.workers, **options.pop("server", {})},
            **options,
        }
        (self.folder / "extproc.yaml").write_text(yaml.safe_dump(settings))
        await self.serve()

    async def serve(self) -> None:
        """Starts the sidecar, also again after it was ended."""
        command = [sys.executable, "-m", "extproc", "serve"]
        command += ["--config", str(self.folder / "extproc.yaml")]
        self.process = self._processes.start("sidecar", command, self._environment)
        await wait_ready(self.process, self.complete)

    async def complete(self) -> bool:
        """Whether the sidecar serves, with all its workers."""
        try:
            status, found = await self.get("/healthz")
        except aiohttp.ClientError:
            return False
        if self.workers > 1 and status == 200:
            return bool(found["components"]["workers"] == f"{self.workers} connected")
        return status == 200

    def pid(self, name: str) -> int:
        """The process of a sidecar with workers that is called ``name``; 0 while there is none."""
        supervisor = self.process.pid
        children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
        for child in children:
            with suppress(OSError):
                if Path(f"/proc/{child}/cmdline").read_text().split("\0")[-2:-1] == [name]:
                    return int(child)
        return 0

    async def kill_envoy(self) -> None:
        """Ends Envoy as kill -9 does."""
        os.kill(self.envoy_process.pid, signal.SIGKILL)
        self._processes.stop(self.envoy_process)

    def reconfigure(self, **settings: Any) -> None:
        """Changes settings in the file of the sidecar, and tells it so."""
        path = self.folder / "extproc.yaml"
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | settings))
        self.signal(signal.SIGHUP)

    async def kill(self) -> None:
        """Ends the sidecar as kill -9 does."""
        self.signal(signal.SIGKILL)
        self._processes.stop(self.process)

    async def start_envoy(self) -> None:
        """Starts Envoy, also again after it was ended."""
        ports = self._ports
        config = with_ports(self._setup.envoy, ports)
        for name, content in self._setup.files.items():
            (self.folder / name).write_text(yaml.safe_dump(with_ports(content, ports)))
        if self.workers > 1:
            with_workers(config, worker_addresses(f"127.0.0.1:{ports[18080]}", self.workers))
        if self._change is not None:
            self._change(config)
        path = self.folder / "envoy.yaml"
        path.write_text(yaml.safe_dump(config))
        command = [
            str(self._setup.binary or find_binary()),
            "-c",
            str(path),
            "--use-dynamic-base-id",
        ]
        command += ["--service-node", "test", "--service-cluster", "test"]
        command += ["--concurrency", "2", "--file-flush-interval-msec", "50", "-l", "warning"]
        process = self.envoy_process = self._processes.start("envoy", command)
        self.envoy = f"http://127.0.0.1:{ports[9901]}"
        await wait_ready(process, answers(self._session, f"{self.envoy}/ready"))

        if not self._setup.two_tier:
            return

        async def both_healthy() -> bool:
            units = await self._units()
            return len(units) == 2 and not any(units.values())

        await eventually(both_healthy)

    async def ask(
        self,
        stream: bool = False,
        path: str = CHAT,
        headers: dict[str, str] | None = None,
        prompt: str = "Hello",
        begun: asyncio.Event | None = None,
    ) -> Got:
        """One request through the front listener. ``begun`` is set with its first bytes."""
        body = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": prompt}]}
        started = time.monotonic()
        received = bytearray()
        complete = True
        async with self._session.post(self.front + path, json=body, headers=headers) as response:
            try:
                async for piece in response.content.iter_any():
                    received += piece
                    if begun is not None:
                        begun.set()
            except aiohttp.ClientPayloadError:
                complete = False
            return Got(
                response.status,
                {name.lower(): value for name, value in response.headers.items()},
                bytes(received),
                complete,
                time.monotonic() - started,
            )

    async def unit(self, name: str) -> dict[str, Any]:
        """The sidecar's view of a unit."""
        async with self._session.get(f"{self.admin}/api/units/{name}") as response:
            found: dict[str, Any] = await response.json()
            return found

    async def counted(self, unit: str, **counts: int) -> None:
        """Waits until a unit's verdicts are these: the book is written after the last byte."""
        wanted = {**dict.fromkeys(("clean", "suspect", "corrupt", "unchecked"), 0), **counts}
        found: dict[str, int] = {}

        async def reached() -> bool:
            found.update((await self.unit(unit))["counts"])
            return found == wanted

        try:
            await eventually(reached, 5)
        except AssertionError:
            raise AssertionError(f"{unit} counts {found}, not {wanted}") from None

    async def become(self, unit: str, **fields: object) -> None:
        """Waits until a unit is described with these fields."""

        async def reached() -> bool:
            found = await self.unit(unit)
            return all(found[name] == value for name, value in fields.items())

        await eventually(reached, 10)

    async def get(self, path: str) -> tuple[int, Any]:
        """What the sidecar's API answers to GET: status and JSON (text, if it is none)."""
        async with self._session.get(f"{self.admin}{path}") as response:
            text = await response.text()
            return response.status, json.loads(text) if text.startswith("{") else text

    async def command(self, unit: str, word: str, reason: str) -> int:
        """An operator's word through the API; the HTTP status."""
        url = f"{self.admin}/api/units/{unit}/{word}"
        async with self._session.post(url, json={"reason": reason}) as response:
            return response.status

    async def metrics(self) -> dict[str, float]:
        """Every sample of /metrics, by name and labels as they are written."""
        async with self._session.get(f"{self.admin}/metrics") as response:
            text = await response.text()
        pairs = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    async def stat(self, name: str) -> int:
        """A counter or gauge of Envoy's; 0 when there is none of that name."""
        async with self._session.get(f"{self.envoy}/stats?filter=^{name}$") as response:
            return int((await response.text()).rpartition(":")[2] or 0)

    async def flags(self, unit: str) -> frozenset[str]:
        """The flags that Envoy put on a unit (``unit_a``), as the front sees it."""
        return (await self._units())[unit]

    async def eds(self, unit: str) -> str:
        """What EDS told Envoy about a unit (``unit_a``)."""
        return str((await self._hosts())[unit].get("eds_health_status", ""))

    async def runtime(self, key: str) -> str:
        """The value of a runtime key that is in force in Envoy, "" if there is none."""
        found = await get_json(self._session, f"{self.envoy}/runtime")
        return str(found["entries"].get(key, {}).get("final_value", ""))

    async def _units(self) -> dict[str, frozenset[str]]:
        return {
            name: frozenset(flag for flag, value in status.items() if value is True)
            for name, status in (await self._hosts()).items()
        }

    async def _hosts(self) -> dict[str, dict[str, Any]]:
        found = await get_json(self._session, f"{self.envoy}/clusters?format=json")
        # Envoy lists no cluster that is still warming.
        hosts = [
            host
            for cluster in found["cluster_statuses"]
            if cluster["name"] == "llm"
            for host in cluster["host_statuses"]
        ]
        return {
            host["address"]["envoy_internal_address"]["server_listener_name"]: host["health_status"]
            for host in hosts
        }

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the sidecar."""
        os.kill(self.process.pid, number)

    def log(self, name: str) -> str:
        """What a process has written so far."""
        return (self.folder / f"{name}.log").read_text(errors="replace")


async def eventually(condition: Callable[[], Awaitable[bool]], seconds: float = 15.0) -> None:
    """Waits until ``condition`` holds; fails the test when it does not in time."""
    deadline = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {condition.__qualname__}"
        await asyncio.sleep(0.05)
