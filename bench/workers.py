"""What several workers cost: CPU of all processes for one message, beside one process alone.

On a machine with fewer cores than workers plus load, throughput cannot be measured by the clock:
load generator, Envoy and workers take turns on the same cores. What can be measured is what a
message costs, summed over supervisor, authority and workers, less what they use when nothing
happens. The workers take their shares one after the other, each at the pace at which the single
process takes all: a server that is given less to do at a time does more work for each message, and
that would be held against it. As long as each worker has a core, N workers then do
``N x (cost alone / cost with N)`` times what one process does: the efficiency below, to be 0.9 at
least. The authority is the one part that all workers share: what a response costs it says how many
responses a second it can take, hence how many workers.

usage: python -m bench.workers [--rounds N] [--counts N ...] [--keep FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import grpc
import uvloop
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.messages import body_messages, headers_message
from bench.play import play
from bench.soak import children, cpu_of
from extproc.config.server import worker_addresses
from extproc.demo.ports import free_base, free_ports, worker_ports

BUDGET = 0.9
SHAPES = {"long": (60, 400), "short": (600, 24)}
"""Streams and chunks of each: long ones show the cost of a message, short ones that of a record."""

SETTLE = 1.5
"""Seconds in which records reach the authority, and metrics are told, before its CPU is read."""

IDLE = 8.0
CONCURRENCY = 16


class Sidecar:
    """One sidecar with so many workers."""

    def __init__(self, workers: int, home: Path) -> None:
        self.workers = workers
        base = free_base(workers)
        (admin,) = free_ports(1, worker_ports(base, workers))
        self._admin = f"http://127.0.0.1:{admin}/healthz"
        self.addresses = worker_addresses(f"127.0.0.1:{base}", workers)
        config = home / f"{workers}.yaml"
        config.write_text(
            f'server: {{workers: {workers}}}\ngrpc: {{address: "127.0.0.1:{base}"}}\n'
            f'admin: {{address: "127.0.0.1:{admin}"}}\nunits: [{{id: unit-a}}]\n'
            f"store: {{path: {home / f'{workers}.db'}}}\n"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-m", "extproc", "serve", "--config", str(config)],
            stderr=subprocess.DEVNULL,
        )
        self.pids = {"alone": self._process.pid}
        self.idle: dict[str, float] = {}

    def wait(self) -> None:
        """Until all of it serves."""
        wanted = f"{self.workers} connected"
        for _ in range(600):
            try:
                with urllib.request.urlopen(self._admin) as answer:
                    found = json.load(answer)
            except OSError:
                time.sleep(0.1)
                continue
            if self.workers == 1:
                return
            if found["components"].get("workers") == wanted:
                self.pids = {"supervisor": self._process.pid, **children(self._process.pid)}
                return
            time.sleep(0.1)
        raise SystemExit(f"a sidecar with {self.workers} workers did not start")

    @property
    def cpu(self) -> dict[str, float]:
        """Seconds of CPU so far, by process."""
        return {name: cpu_of(pid) for name, pid in self.pids.items()}

    def stop(self) -> None:
        """Ends it."""
        self._process.terminate()
        self._process.wait()


async def _load(addresses: list[str], streams: int, messages: list[bytes]) -> None:
    """``streams`` streams, an equal share for each worker, one worker after the other."""
    for address in addresses:
        gate = asyncio.Semaphore(CONCURRENCY)
        async with grpc.aio.insecure_channel(address) as channel:

            async def one(channel: Any = channel, gate: asyncio.Semaphore = gate) -> None:
                async with gate:
                    await play(channel, messages)

            await asyncio.gather(*(one() for _ in range(streams // len(addresses))))


def _cost(sidecar: Sidecar, streams: int, chunks: int) -> dict[str, float]:
    """Seconds of CPU of each process, beyond what it uses idle."""
    before, began = sidecar.cpu, time.monotonic()
    uvloop.run(_load(sidecar.addresses, streams, [headers_message(), *body_messages(chunks)]))
    time.sleep(SETTLE)
    passed = time.monotonic() - began
    return {
        name: used - before[name] - passed * sidecar.idle.get(name, 0.0)
        for name, used in sidecar.cpu.items()
    }


def _rest(sidecar: Sidecar) -> None:
    """Measures what its processes use when nothing happens."""
    before = sidecar.cpu
    time.sleep(IDLE)
    sidecar.idle = {name: (used - before[name]) / IDLE for name, used in sidecar.cpu.items()}


def measure(counts: list[int], rounds: int, console: Console) -> list[dict[str, Any]]:
    """Rows of the table. The variants take turns; the median round counts."""
    with tempfile.TemporaryDirectory() as home:
        sidecars = [Sidecar(workers, Path(home)) for workers in dict.fromkeys([1, *counts])]
        try:
            for sidecar in sidecars:
                sidecar.wait()
                _cost(sidecar, 48, 24)
            for sidecar in sidecars:
                _rest(sidecar)
            costs: dict[tuple[str, int], list[dict[str, float]]] = {}
            turns = track(
                range(rounds), "measuring", console=console, disable=not console.is_terminal
            )
            for _ in turns:
                for shape, (streams, chunks) in SHAPES.items():
                    for sidecar in sidecars:
                        found = _cost(sidecar, streams, chunks)
                        costs.setdefault((shape, sidecar.workers), []).append(found)
            idle = {sidecar.workers: sidecar.idle for sidecar in sidecars}
        finally:
            for sidecar in sidecars:
                sidecar.stop()
    rows = []
    for (shape, workers), taken in costs.items():
        streams, chunks = SHAPES[shape]
        messages = streams * (chunks + 1)
        ratios = [
            sum(alone.values()) / sum(all_.values())
            for alone, all_ in zip(costs[shape, 1], taken, strict=True)
        ]
        whole = statistics.median(sum(found.values()) for found in taken)
        authority = statistics.median(found.get("authority", 0.0) for found in taken)
        efficiency = statistics.median(ratios)
        rows.append(
            {
                "shape": shape,
                "workers": workers,
                "idle_cores": round(sum(idle[workers].values()), 4),
                "us_a_message": round(whole / messages * 1e6, 1),
                **_of_authority(streams, authority),
                "efficiency": round(efficiency, 3),
                "throughput": round(workers * efficiency, 2),
                "budget": BUDGET,
                "met": efficiency >= BUDGET,
            }
        )
    return rows


def _of_authority(streams: int, cpu: float) -> dict[str, int | None]:
    """What a response costs the authority. A few hundred are lost in the clock's resolution."""
    known = streams >= 500 and cpu > 0
    return {
        "authority_us_a_response": round(cpu / streams * 1e6) if known else None,
        "authority_responses_a_second": round(streams / cpu) if known else None,
    }


def main() -> int:
    """Prints the table; 1 when the budget is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--counts", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--keep", type=Path, help="write the result there as JSON")
    options = parser.parse_args()
    rows = measure(options.counts, options.rounds, Console(stderr=True))
    if options.keep:
        options.keep.parent.mkdir(parents=True, exist_ok=True)
        options.keep.write_text(json.dumps(rows, indent=2) + "\n")
    table = Table(
        *("streams", "workers", "µs a message, all processes", "efficiency"),
        *(
            "times one process",
            "authority, µs a response",
            "responses a second at most",
            "idle cores",
        ),
    )
    for row in rows:
        mark = "green" if row["met"] else "red"
        table.add_row(
            *(row["shape"], str(row["workers"]), f"{row['us_a_message']:.1f}"),
            f"[{mark}]{row['efficiency']:.2f}[/]",
            f"{row['throughput']:.2f}",
            *(_text(row[f"authority_{what}"]) for what in ("us_a_response", "responses_a_second")),
            f"{row['idle_cores']:.3f}",
        )
    Console(width=120).print(table)
    return 0 if all(row["met"] for row in rows) else 1


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


if __name__ == "__main__":
    sys.exit(main())
