"""What inspection costs at the gRPC edge, as ratios to a no-op server measured in the same run.

Each server runs in a process of its own, gets the same streams, and its CPU is read from /proc.
The servers take turns, several rounds, and the median round counts: another load on the machine
hits all of them alike. The budgets are against the no-op on asyncio's own loop; the no-op on
uvloop, which the sidecar uses, is shown beside it.

usage: python -m bench.edge [--rounds N] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import uvloop
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.messages import body_messages, headers_message

METHOD = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"
TICK = os.sysconf("SC_CLK_TCK")


class Server:
    """A server process under measurement."""

    def __init__(self, name: str, command: Callable[[int, Path], list[str]], home: Path) -> None:
        self.name = name
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self._process = subprocess.Popen(
            command(self.port, home), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    @property
    def cpu(self) -> float:
        """Seconds of CPU so far, user and system."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    @property
    def memory(self) -> int:
        """Resident bytes."""
        pages = Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def stop(self) -> None:
        """Ends the process."""
        self._process.terminate()
        self._process.wait()


def _noop(loop: str) -> Callable[[int, Path], list[str]]:
    return lambda port, home: [sys.executable, "-m", "bench.noop", f"127.0.0.1:{port}", loop]


def _sidecar(port: int, home: Path) -> list[str]:
    config = home / "extproc.yaml"
    config.write_text(
        f'grpc: {{address: "127.0.0.1:{port}"}}\nadmin: {{address: "127.0.0.1:0"}}\n'
        f"units: [{{id: unit-a}}]\nstore: {{path: {home / 'semantic-extproc.db'}}}\n"
    )
    return [sys.executable, "-m", "extproc", "serve", "--config", str(config)]


async def _play(channel: Any, messages: list[bytes], delays: list[float] | None = None) -> None:
    """One stream, message by message, as Envoy does after the hold: each waits for its answer."""
    call = channel.stream_stream(METHOD)()
    await call.write(messages[0])
    await call.write(messages[1])
    owed = 2  # the headers' answer may be held until a few body messages are there
    answered = 0
    for message in messages[2:]:
        await call.write(message)
        owed += 1
        while answered < owed - 4:
            await call.read()
            answered += 1
        if owed > 8:
            started = time.perf_counter()
            while answered < owed:
                await call.read()
                answered += 1
            if delays is not None:
                delays.append(time.perf_counter() - started)
    while answered < owed:
        await call.read()
        answered += 1
    await call.done_writing()
    call.cancel()


async def _load(port: int, streams: int, chunks: int, concurrency: int) -> list[float]:
    """``streams`` streams of ``chunks`` body messages; returns seconds from message to answer."""
    messages = [headers_message(), *body_messages(chunks)]
    delays: list[float] = []
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        await asyncio.wait_for(channel.channel_ready(), 30)
        gate = asyncio.Semaphore(concurrency)

        async def one() -> None:
            async with gate:
                await _play(channel, messages, delays)

        await asyncio.gather(*(one() for _ in range(streams)))
    return delays


def _cost(server: Server, streams: int, chunks: int) -> float:
    before = server.cpu
    uvloop.run(_load(server.port, streams, chunks, 16))
    return server.cpu - before


async def _open(port: int, streams: int, chunks: int) -> list[Any]:
    channel: Any = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
    messages = [headers_message(), *body_messages(chunks + 1)[:-1]]
    calls = []
    for _ in range(streams):
        call = channel.stream_stream(METHOD)()
        for message in messages:
            await call.write(message)
        for _ in messages:
            await call.read()
        calls.append(call)
    return [channel, *calls]


def _memory(server: Server, streams: int, chunks: int) -> float:
    """Bytes that one open stream adds, with ``chunks`` messages read."""

    async def measure() -> float:
        before = server.memory
        channel, *calls = await _open(server.port, streams, chunks)
        grown = server.memory - before
        for call in calls:
            call.cancel()
        await channel.close()
        return grown / streams

    return uvloop.run(measure())


def main() -> int:
    """Prints the table; 1 when a budget of the design is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as home:
        kinds = {"no-op": _noop("asyncio"), "no-op uvloop": _noop("uvloop"), "sidecar": _sidecar}
        servers = {name: Server(name, command, Path(home)) for name, command in kinds.items()}
        try:
            rows = _measure(servers, options.rounds, console)
        finally:
            for server in servers.values():
                server.stop()
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        _show(rows)
    return 0 if all(row["met"] for row in rows) else 1


def _measure(servers: dict[str, Server], rounds: int, console: Console) -> list[dict[str, Any]]:
    for server in servers.values():  # import, first allocations
        _cost(server, 20, 20)
    shapes = {"chunk": (40, 400), "stream": (400, 24)}
    costs: dict[tuple[str, str], list[float]] = {}
    delays: dict[str, list[float]] = {name: [] for name in servers}
    for _ in track(range(rounds), "measuring", console=console, disable=not console.is_terminal):
        for shape, (streams, chunks) in shapes.items():
            for name, server in servers.items():
                costs.setdefault((shape, name), []).append(_cost(server, streams, chunks))
        for name, server in servers.items():
            delays[name] += uvloop.run(_load(server.port, 10, 100, 1))

    def ratio(shape: str, base: str) -> float:
        pairs = zip(costs[shape, "sidecar"], costs[shape, base], strict=True)
        return statistics.median(ours / theirs for ours, theirs in pairs)

    added = statistics.median(delays["sidecar"]) - statistics.median(delays["no-op uvloop"])
    each = _memory(servers["sidecar"], 200, 500) / 1024
    rows: list[dict[str, Any]] = []

    def row(what: str, value: float, budget: float | None = None) -> None:
        met = budget is None or round(value, 2) <= budget
        rows.append({"what": what, "value": round(value, 3), "budget": budget, "met": met})

    row("CPU per chunk / no-op", ratio("chunk", "no-op"), 1.25)
    row("CPU per chunk / no-op on uvloop", ratio("chunk", "no-op uvloop"))
    row("CPU per stream of 24 chunks / no-op", ratio("stream", "no-op"), 1.3)
    row("CPU per stream of 24 chunks / no-op on uvloop", ratio("stream", "no-op uvloop"))
    row("added delay per chunk at light load, microseconds (p50)", added * 1e6, 50)
    row("memory per open stream, KiB", each, 64)
    return rows


def _show(rows: list[dict[str, Any]]) -> None:
    table = Table("what", "measured", "budget", "")
    for row in rows:
        mark = "[green]met[/]" if row["met"] else "[red]missed[/]"
        budget = row["budget"]
        limit = ("", "") if budget is None else (f"<= {budget:g}", mark)
        table.add_row(row["what"], f"{row['value']:.2f}", *limit)
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
