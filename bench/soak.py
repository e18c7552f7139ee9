"""Thousands of event streams at a time through the real Envoy and the sidecar, for minutes.

Nothing may be lost: every answer whole, every one inspected (Envoy's ``failure_mode_allowed`` and
``message_timeouts`` stay 0), no process restarted, no record dropped, and memory flat once all
streams are open. Everything shares this machine, so the rate of tokens is chosen to fit it; see
docs/performance.md.

usage: python -m bench.soak [--streams N] [--rate R] [--seconds S] [--workers N] [--keep FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.servers import seconds_of_cpu
from extproc.config.server import worker_addresses
from extproc.demo.envoy import find_binary, standalone, with_ports, with_workers
from extproc.demo.http import answers, get_text
from extproc.demo.ports import free_base, free_ports, worker_ports
from extproc.demo.processes import Process, Processes, wait_ready

GROWTH = 0.05
"""Of a process's memory, from the first third of the steady time to the last: more is a leak."""

LOST = {
    "Envoy let pass without us": "failure_mode_allowed",
    "Envoy waited in vain": "message_timeouts",
    "streams that failed": "streams_failed",
}


class Stage:
    """All processes, and questions to them."""

    def __init__(self, processes: Processes, folder: Path, options: argparse.Namespace) -> None:
        self._processes = processes
        self._folder = folder
        self._options = options
        grpc = free_base(options.workers)
        others = free_ports(4, worker_ports(grpc, options.workers))
        front, envoy, admin, self._engine = others
        self.front = front
        self._ports = {
            10000: front,
            9901: envoy,
            18080: grpc,
            18081: admin,
            8001: self._engine,
            8002: self._engine,
        }
        self.envoy, self.admin = f"http://127.0.0.1:{envoy}", f"http://127.0.0.1:{admin}"
        self.watched: dict[str, int] = {}

    async def set_up(self, session: aiohttp.ClientSession) -> None:
        """Starts everything but the clients."""
        python, options, ports = sys.executable, self._options, self._ports
        command = [python, "-m", "bench.sse", "engine", str(self._engine), str(options.rate)]
        self._processes.start("engine", command)
        settings: dict[str, Any] = yaml.safe_load((standalone() / "extproc.yaml").read_text())
        address = f"127.0.0.1:{ports[18080]}"
        settings |= {
            "server": {"workers": options.workers},
            "grpc": {"address": address},
            "admin": {"address": self.admin.removeprefix("http://")},
            "store": {"path": str(self._folder / "store.db")},
        }
        file = self._folder / "extproc.yaml"
        file.write_text(yaml.safe_dump(settings))
        sidecar = self._processes.start(
            "sidecar", [python, "-m", "extproc", "serve", "--config", str(file)]
        )
        await wait_ready(sidecar, answers(session, f"{self.admin}/healthz"))
        config = with_ports(yaml.safe_load((standalone() / "envoy.yaml").read_text()), ports)
        with_workers(config, worker_addresses(address, options.workers))
        for listener in config["static_resources"]["listeners"]:  # a line an answer is no load
            listener["filter_chains"][0]["filters"][0]["typed_config"].pop("access_log")
        for cluster in config["static_resources"]["clusters"]:
            # An engine that is slow to accept is no fault of a unit's here.
            cluster["connect_timeout"] = "5s" if cluster["name"] in ("unit_a", "unit_b") else "1s"
        path = self._folder / "envoy.yaml"
        path.write_text(yaml.safe_dump(config))
        envoy = self._processes.start(
            "envoy",
            [
                *(str(find_binary()), "-c", str(path), "--use-dynamic-base-id"),
                *("--concurrency", "2", "-l", "warning"),
            ],
        )
        await wait_ready(envoy, answers(session, f"{self.envoy}/ready"))
        await asyncio.sleep(2)  # health checks
        self.watched = {"supervisor": sidecar.pid, "envoy": envoy.pid, **children(sidecar.pid)}

    def start_clients(self) -> Process:
        """Starts the clients."""
        options = self._options
        numbers = (self.front, options.streams, options.tokens, options.seconds, options.ramp)
        command = [sys.executable, "-m", "bench.sse", "clients", *map(str, numbers)]
        return self._processes.start("clients", command)

    def told(self) -> dict[str, Any]:
        """What the clients said last."""
        lines = (self._folder / "clients.log").read_text().splitlines()
        for line in reversed(lines):
            if line.startswith("{") and line.endswith("}"):
                found: dict[str, Any] = json.loads(line)
                return found
        return {"open": 0, "ended": {}}

    async def counters(self, session: aiohttp.ClientSession) -> dict[str, float]:
        """Of the sidecar, by name and labels; Envoy's begin with ``envoy.``."""
        text = await get_text(session, f"{self.admin}/metrics")
        pairs = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        found = {name: float(value) for name, value in pairs}
        text = await get_text(session, f"{self.envoy}/stats?filter=ext_proc|upstream_rq_retry$")
        for line in text.splitlines():
            name, _, value = line.rpartition(": ")
            if value.isdecimal():
                found[f"envoy.{name}"] = float(value)
        return found


class Pauses(threading.Thread):
    """Notices when the machine gives nobody a turn: what Envoy then waits for in vain is not the
    sidecar's doing."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.longest = 0.0

    def run(self) -> None:
        last = time.monotonic()
        while True:
            time.sleep(0.01)
            now = time.monotonic()
            self.longest = max(self.longest, now - last - 0.01)
            last = now


def children(supervisor: int) -> dict[str, int]:
    """Name -> process of what runs under a supervisor."""
    found = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    return {Path(f"/proc/{pid}/cmdline").read_text().split("\0")[-2]: int(pid) for pid in found}


def resident(pid: int) -> int:
    """Bytes of memory of a process, 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def cpu_of(pid: int) -> float:
    """Seconds, user and system, 0 when it is gone."""
    try:
        return seconds_of_cpu(pid)
    except OSError:
        return 0.0


def memory(samples: list[tuple[float, int]]) -> dict[str, float]:
    """Of one process in its steady time: MiB at the beginning and at the end (means of the first
    and the last third), and the slope of the line through all samples."""
    times = [at for at, _ in samples]
    sizes = [size / 2**20 for _, size in samples]
    third = max(1, len(samples) // 3)
    first, last = sum(sizes[:third]) / third, sum(sizes[-third:]) / third
    mean_t, mean_s = sum(times) / len(times), sum(sizes) / len(sizes)
    spread = sum((t - mean_t) ** 2 for t in times) or 1.0
    slope = sum((t - mean_t) * (s - mean_s) for t, s in zip(times, sizes, strict=True)) / spread
    return {
        "first_mib": round(first, 1),
        "last_mib": round(last, 1),
        "mib_per_minute": round(slope * 60, 3),
        "growth": round(last / first - 1, 4) if first else 0.0,
    }


async def soak(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Runs it all; the result."""
    with tempfile.TemporaryDirectory() as home, Processes(Path(home)) as processes:
        stage = Stage(processes, Path(home), options)
        pauses = Pauses()
        pauses.start()
        async with aiohttp.ClientSession() as session:
            await stage.set_up(session)
            length = options.tokens / options.rate
            # The first generation opens all at once; memory is steady when the second one runs.
            steady_from = options.ramp + length
            whole = options.ramp + options.seconds
            samples: dict[str, list[tuple[float, int]]] = {name: [] for name in stage.watched}
            peak = 0
            clients = stage.start_clients()
            began = time.monotonic()
            cpu: dict[str, float] = {}
            counted: dict[str, float] = {}
            measured = 0.0
            with Progress(console=console, disable=not console.is_terminal) as progress:
                task = progress.add_task("", total=whole + length)
                while clients.running:
                    await asyncio.sleep(2)
                    passed = time.monotonic() - began
                    told = stage.told()
                    peak = max(peak, told["open"])
                    progress.update(
                        task, completed=passed, description=f"{told['open']} streams open"
                    )
                    if steady_from <= passed <= whole:
                        now = {name: cpu_of(pid) for name, pid in stage.watched.items()}
                        if not cpu:
                            cpu, counted = now, await stage.counters(session)
                            measured = passed
                        for name, pid in stage.watched.items():
                            samples[name].append((passed, resident(pid)))
                        latest, latest_at = now, passed
                    elif passed > whole and cpu and "per" not in counted:
                        seen = await stage.counters(session)
                        chunks = "semantic_extproc_body_chunks_total"
                        counted["per"] = seen[chunks] - counted[chunks]
                        counted["seconds"] = latest_at - measured
            found = await stage.counters(session)
            log = (Path(home) / "sidecar.log").read_text()
        used = {name: latest[name] - cpu[name] for name in cpu} if cpu else {}
        return _result(
            options, stage.told(), peak, found, samples, used, counted, log, pauses.longest
        )


def _result(
    options: argparse.Namespace,
    told: Mapping[str, Any],
    peak: int,
    found: Mapping[str, float],
    samples: Mapping[str, list[tuple[float, int]]],
    used: Mapping[str, float],
    counted: Mapping[str, float],
    log: str,
    pause: float,
) -> dict[str, Any]:
    def total(prefix: str) -> float:
        return sum(value for name, value in found.items() if name.startswith(prefix))

    lost = {
        words: sum(total(f"envoy.http.unit_{unit}.ext_proc.{name}") for unit in "ab")
        for words, name in LOST.items()
    } | {
        "faults of our own": total("semantic_extproc_internal_errors_total"),
        "processes restarted": total("semantic_extproc_process_restarts_total"),
        "records dropped": total("semantic_extproc_link_dropped_total"),
        "answers not whole, not ours, or changed": sum(
            number for word, number in told["ended"].items() if word != "ok"
        ),
        "answers not inspected": sum(
            value
            for name, value in found.items()
            if name.startswith("semantic_extproc_responses_total") and '"unchecked"' in name
        ),
        "answers wrongly held corrupt": sum(
            value
            for name, value in found.items()
            if name.startswith("semantic_extproc_responses_total") and '"corrupt"' in name
        ),
    }
    seconds = counted.get("seconds") or 1.0
    rss = {name: memory(taken) for name, taken in samples.items() if taken}
    return {
        "streams": options.streams,
        "most_open": peak,
        "rate": options.rate,
        "tokens": options.tokens,
        "seconds": options.seconds,
        "workers": options.workers,
        "cores": len(os.sched_getaffinity(0)),
        "load_average": os.getloadavg(),
        "answers": told["ended"].get("ok", 0),
        "messages_per_second": round(counted.get("per", 0.0) / seconds, 1),
        "cpu_share": {name: round(value / seconds, 3) for name, value in used.items()},
        "loop_stalls": total("semantic_extproc_loop_stalls_total"),
        "holds_by_reason": {
            name.partition('"')[2].rstrip('"}'): value
            for name, value in found.items()
            if name.startswith("semantic_extproc_hold_releases_total")
        },
        "unchecked_by_reason": {
            name: value
            for name, value in found.items()
            if name.startswith("semantic_extproc_unchecked_total") and value
        },
        "loop_lag_seconds": {
            name.partition('le="')[2].rstrip('"}'): value
            for name, value in found.items()
            if name.startswith("semantic_extproc_event_loop_lag_seconds_bucket")
        },
        "longest_pause_of_the_machine": round(pause, 3),
        "lost": lost,
        "memory": rss,
        "met": not any(lost.values())
        and peak >= options.streams * 0.99
        and all(each["growth"] <= GROWTH for each in rss.values()),
        **({"log": log[-3000:]} if any(lost.values()) else {}),
    }


def main() -> int:
    """Prints the result; 1 when something was lost or memory grew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--rate", type=float, default=1.0, help="tokens a second, each stream")
    parser.add_argument("--tokens", type=int, default=60, help="of one answer")
    parser.add_argument("--seconds", type=float, default=180.0, help="after the ramp")
    parser.add_argument("--ramp", type=float, default=30.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="write the result there as JSON")
    options = parser.parse_args()
    files = 4 * options.streams + 1000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, files), hard), hard))
    console = Console(stderr=True)
    result = asyncio.run(soak(options, console))
    if options.keep:
        options.keep.parent.mkdir(parents=True, exist_ok=True)
        options.keep.write_text(json.dumps(result, indent=2) + "\n")
    _show(result)
    return 0 if result["met"] else 1


def _show(result: Mapping[str, Any]) -> None:
    console = Console()
    console.print(
        f"{result['most_open']} streams open, {result['messages_per_second']:.0f} messages a "
        f"second, {result['answers']} answers, {result['seconds']:.0f} s, {result['workers']} "
        "workers"
    )
    table = Table("process", "cores", "MiB, first third", "last third", "MiB a minute", "growth")
    for name, each in result["memory"].items():
        table.add_row(
            name,
            f"{result['cpu_share'].get(name, 0):.2f}",
            f"{each['first_mib']:.1f}",
            f"{each['last_mib']:.1f}",
            f"{each['mib_per_minute']:+.2f}",
            f"{each['growth']:+.1%}",
        )
    console.print(table)
    table = Table("what may not happen", "times")
    for words, number in result["lost"].items():
        table.add_row(words, f"[red]{number:.0f}[/]" if number else "0")
    console.print(table)
    console.print("[green]met[/]" if result["met"] else "[red]missed[/]")


if __name__ == "__main__":
    sys.exit(main())
