"""What a fleet of M gateways and N units takes: cores, load on Redis, time to a quarantine.

Costs are measured with real processes (sidecar, redis-server), times are simulated with the real
book, sampler and agreement of each gateway.

usage: python -m bench.scaling [--runs N] [--json] [--keep FILE]
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from multiprocessing import Pool
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.health import UNITS
from bench.messages import body_messages
from bench.play import cost
from bench.servers import Server, free_port, sidecar
from extproc.detect import Kind
from extproc.health import Ledger, Response, State
from extproc.health.agreement import Agreement
from extproc.health.sampling import Sampler

TOKENS = 10_000
"""A second, of all streams together."""

ANSWER = 400
"""Tokens of a usual answer, one chunk each: what an engine streams at low load. A busy engine puts
several into one chunk, and then costs less."""

GATEWAYS = (1, 10, 50)
RATES = (1.0, 0.2, 0.05)
SHARES = (1.0, 0.25, 0.05)
ROUND = 1.0
"""Seconds from one exchange of the fleet to the next."""

LIMIT = 60_000
"""Answers of the fleet after which a run is given up."""


class Case(NamedTuple):
    """``rate``: of corrupt answers; ``share``: inspected while a unit passes; ``pace``: answers a
    second of the unit, over all gateways."""

    gateways: int
    rate: float
    share: float
    pace: float = 20.0


def fleet(work: tuple[Case, int]) -> int | None:
    """Answers of the unit, over all gateways, until every gateway holds it in quarantine."""
    case, seed = work
    rng = random.Random(seed)
    ledgers = [Ledger(UNITS) for _ in range(case.gateways)]
    talks = [Agreement(ledger, f"g{at}") for at, ledger in enumerate(ledgers)]
    samplers = [Sampler(case.share) for _ in ledgers]
    due = ROUND
    for number in range(LIMIT):
        at = number / case.pace
        if at >= due:
            due += ROUND
            for talk in talks:
                others = [
                    s for other in talks if other is not talk for s in other.shared().values()
                ]
                talk.adopt(others, at)
            if all(ledger.unit_state("canary") is State.QUARANTINE for ledger in ledgers):
                return number
        here = rng.randrange(case.gateways)
        state = ledgers[here].state("canary", "short")
        if state is State.QUARANTINE or not samplers[here].takes("canary", "h", "short", state):
            continue
        kind = Kind.CORRUPT if rng.random() < case.rate else Kind.CLEAN
        ledgers[here].record(Response("canary", "r1", "short", "h", kind, (), "", at))
    return None


def measured_cost() -> dict[str, float]:
    """Microseconds of CPU a chunk, and a stream beside its chunks, of one sidecar process."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server("sidecar", sidecar, Path(folder))
        try:
            cost(server, body_messages(20), 20)
            short, long = [], []
            for _ in range(5):
                short.append(cost(server, body_messages(24), 400) / 400)
                long.append(cost(server, body_messages(424), 40) / 40)
        finally:
            server.stop()
    chunk = (statistics.median(long) - statistics.median(short)) / 400
    return {"chunk": chunk * 1e6, "stream": (statistics.median(short) - 24 * chunk) * 1e6}


def measured_redis(units: int, sidecars: int, seconds: float) -> dict[str, float] | None:
    """Commands and bytes a second of one sidecar with so many units; None without a server."""
    binary = shutil.which("redis-server") or shutil.which("valkey-server")
    if binary is None:
        return None
    import redis

    with tempfile.TemporaryDirectory() as folder:
        home, port = Path(folder), free_port()
        server = subprocess.Popen(
            [binary, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder],
            stdout=subprocess.DEVNULL,
        )
        running = [server]
        try:
            client: Any = redis.Redis(port=port)
            _until(lambda: client.ping())
            listed = ", ".join(f"{{id: u{n}, model: m{n}}}" for n in range(units))
            for at in range(sidecars):
                admin = free_port()
                config = home / f"{at}.yaml"
                config.write_text(
                    f'server: {{workers: 1}}\ngrpc: {{address: "127.0.0.1:{free_port()}"}}\n'
                    f'admin: {{address: "127.0.0.1:{admin}"}}\n'
                    f"fleet: {{url: 'redis://127.0.0.1:{port}', instance: g{at}}}\n"
                    f"units: [{listed}]\nstore: {{path: {home / f'{at}.db'}}}\n"
                )
                running.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "extproc", "serve", "--config", str(config)],
                        stderr=subprocess.DEVNULL,
                    )
                )
                _quarantine(admin, "u0")  # so that there is something to tell
            time.sleep(3)
            before = client.info()
            time.sleep(seconds)
            after = client.info()
        finally:
            for process in reversed(running):
                process.terminate()
            for process in running:
                process.wait()

    def rate(name: str) -> float:
        return float(after[name] - before[name]) / seconds / sidecars

    return {
        "commands": rate("total_commands_processed"),
        "bytes": rate("total_net_input_bytes") + rate("total_net_output_bytes"),
        "cpu": (after["used_cpu_user"] - before["used_cpu_user"]) / seconds / sidecars,
    }


def _quarantine(admin: int, unit: str) -> None:
    from extproc.cli.admin import Api, Unreachable

    api = Api(f"http://127.0.0.1:{admin}")

    def done() -> bool:
        try:
            api.post(api.unit(unit, "quarantine"), {"reason": "benchmark"})
        except Unreachable:
            return False
        return True

    _until(done)


def _until(done: Any) -> None:
    for _ in range(300):
        try:
            if done():
                return
        except OSError:
            pass
        except Exception as error:
            if "onnect" not in type(error).__name__:
                raise
        time.sleep(0.1)
    raise TimeoutError


def main() -> int:
    """Prints three tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path, help="write the JSON result to this file")
    options = parser.parse_args()
    console = Console(stderr=True)
    costs = measured_cost()
    cores = TOKENS * (costs["chunk"] + costs["stream"] / ANSWER) / 1e6
    dense = TOKENS * (costs["chunk"] / 4 + costs["stream"] / ANSWER) / 1e6
    result: dict[str, Any] = {
        "CPU": [
            {"what": "microseconds a chunk", "measured": round(costs["chunk"], 1)},
            {"what": "microseconds a stream, beside", "measured": round(costs["stream"], 1)},
            {"what": f"cores for {TOKENS} tokens/s, one a chunk", "measured": round(cores, 2)},
            {"what": f"cores for {TOKENS} tokens/s, four a chunk", "measured": round(dense, 2)},
        ],
        "Redis, of each gateway": _redis_rows(),
        "answers until every gateway holds the unit in quarantine": _times(options.runs, console),
    }
    if options.keep:
        options.keep.write_text(json.dumps(result, indent=2) + "\n")
    if options.json:
        print(json.dumps(result, indent=2))
        return 0
    for title, rows in result.items():
        table = Table(*rows[0], title=title, title_justify="left")
        for row in rows:
            table.add_row(*map(str, row.values()))
        Console().print(table)
    return 0


def _redis_rows() -> list[dict[str, Any]]:
    rows = []
    for units in (2, 20, 200):
        found = measured_redis(units, 3, 10)
        if found is None:
            return [{"units": "-", "commands a second": "no redis-server on this machine"}]
        rows.append(
            {
                "units": units,
                "commands a second": round(found["commands"], 1),
                "KiB a second": round(found["bytes"] / 1024, 1),
            }
        )
    return rows


def _times(runs: int, console: Console) -> list[dict[str, Any]]:
    cases = [Case(m, rate, share) for m in GATEWAYS for rate in RATES for share in SHARES]
    rows = []
    with Pool() as pool, Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("simulating", total=runs * len(cases))
        for case in cases:
            results = []
            for result in pool.imap_unordered(fleet, [(case, seed) for seed in range(runs)]):
                progress.advance(task)
                results.append(LIMIT if result is None else result)
            results.sort()
            rows.append(
                {
                    "gateways": case.gateways,
                    "corrupt": f"{case.rate:.0%}",
                    "inspected": f"{case.share:.0%}",
                    "median": round(statistics.median(results)),
                    "90 % within": results[int(0.9 * (len(results) - 1))],
                }
            )
    return rows


if __name__ == "__main__":
    sys.exit(main())
