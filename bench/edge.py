"""What inspection costs at the gRPC edge, as ratios to servers that do nothing, in the same run.

Each server runs in a process of its own, gets the same streams, and the kernel tells its CPU time.
The servers take short turns, many rounds, and the median round counts: another load on the machine
hits all of them alike. The budgets are against the no-op on asyncio's own loop. Beside it stand
the no-op on uvloop, and on uvloop with gRPC set as the sidecar sets it; the limit (C++), and what a
package for such servers costs (envoy-extproc-sdk), the last two where they can be had.

``--beside VARIABLE=VALUE``: what an environment variable would change, of the sidecar, of gRPC or
of Python; instead of all that, and as often as you like.

usage: python -m bench.edge [--rounds N] [--series | --beside VARIABLE=VALUE] [--json] [--keep FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.messages import body_messages, long_body_messages
from bench.play import cost, load, memory
from bench.servers import AS_SET, Command, Server, noop, sidecar, yardsticks

SHAPES = {"chunk": (8, 400), "stream": (80, 24)}
"""Streams and chunks of each: long streams show the cost of a chunk, short ones of a stream."""

WORDS = {"chunk": "CPU per chunk", "stream": "CPU per stream of 24 chunks"}

BUDGETS = {"chunk": 1.25, "stream": 1.3}
"""Times the no-op on asyncio's loop."""

LENGTHS = (10, 100, 1_000, 10_000, 100_000)
OPEN = (10, 100, 500, 1_000, 2_000)

Row = dict[str, Any]

Costs = dict[tuple[str, str], list[float]]
"""Shape and server -> seconds of CPU, round by round."""


def main() -> int:
    """Prints the tables; 1 when a budget of the design is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--series", action="store_true", help="by length and by open streams, too")
    parser.add_argument("--beside", action="append", metavar="VARIABLE=VALUE", default=[])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path, help="write the JSON result to this file")
    options = parser.parse_args()
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        if options.beside:
            result = {"beside": _beside(home, options.rounds, options.beside, console)}
        else:
            result = {"edge": _edge(home, options.rounds, console)}
        if options.series and not options.beside:
            result["by length"] = _by_length(home, console)
            result["by open streams"] = _by_open_streams(home, console)
    if options.keep:
        options.keep.write_text(json.dumps(result, indent=2) + "\n")
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        for title, rows in result.items():
            _show(title, rows)
    return 0 if all(row["met"] for row in result.get("edge", ())) else 1


def _started(kinds: dict[str, Command], home: Path) -> dict[str, Server]:
    servers = {name: Server(name, command, home) for name, command in kinds.items()}
    try:
        for server in servers.values():  # import, first allocations
            cost(server, body_messages(20), 20)
    except BaseException:
        _stop(servers)
        raise
    return servers


def _stop(servers: dict[str, Server]) -> None:
    for server in servers.values():
        server.stop()


def _edge(home: Path, rounds: int, console: Console) -> list[Row]:
    kinds = yardsticks(lambda text: console.print(text, style="yellow"))
    names = list(kinds)
    servers = _started({**kinds, "sidecar": sidecar}, home)
    costs: Costs = {}
    delays: dict[str, list[float]] = {name: [] for name in servers}
    light = body_messages(100)
    try:
        for _ in _track(range(rounds), "edge", console):
            _round(servers, costs)
            for name, server in servers.items():
                delays[name] += load(server, light, 10, 1)
        each = memory(servers["sidecar"], body_messages(501)[:-1], 200) / 1024
    finally:
        _stop(servers)

    rows: list[Row] = []
    for shape, words in WORDS.items():
        for base in names:
            budget = BUDGETS[shape] if base == "no-op" else None
            rows.append(_compared(f"{words} / {base}", costs, shape, "sidecar", base, budget))
    added = statistics.median(delays["sidecar"]) - statistics.median(delays[AS_SET])
    rows.append(_row("added delay per chunk at light load, microseconds (p50)", added * 1e6, 50))
    rows.append(_row("memory per open stream, KiB", each, 64))
    return rows


def _beside(home: Path, rounds: int, variables: list[str], console: Console) -> list[Row]:
    """Cost of the sidecar with each of the variables, over that of the sidecar as it is."""

    def variant(variable: str) -> Command:
        return lambda port, home: ["env", variable, *sidecar(port, home)]

    servers = _started({"sidecar": sidecar, **{v: variant(v) for v in variables}}, home)
    costs: Costs = {}
    try:
        for _ in _track(range(rounds), "beside", console):
            _round(servers, costs)
    finally:
        _stop(servers)
    return [
        _compared(f"{words} with {variable} / without", costs, shape, variable, "sidecar")
        for variable in variables
        for shape, words in WORDS.items()
    ]


def _round(servers: dict[str, Server], costs: Costs) -> None:
    for shape, (streams, chunks) in SHAPES.items():
        for name, server in servers.items():
            spent = cost(server, body_messages(chunks), streams)
            costs.setdefault((shape, name), []).append(spent)


def _compared(
    what: str, costs: Costs, shape: str, name: str, base: str, budget: float | None = None
) -> Row:
    pairs = zip(costs[shape, name], costs[shape, base], strict=True)
    found = [ours / max(theirs, 1e-9) for ours, theirs in pairs]
    row = _row(what, statistics.median(found), budget)
    return {**row, "quartiles": _quartiles(found)}


def _by_length(home: Path, console: Console) -> list[Row]:
    """Cost per chunk of a stream of so many, over the no-op's, in the same round."""
    servers = _started({"no-op": noop("asyncio"), "sidecar": sidecar}, home)
    rows = []
    try:
        for length in _track(LENGTHS, "by length", console):
            bodies = long_body_messages(length)
            streams = max(1, 20_000 // length)
            ratios = []
            for _ in range(7 if length < 100_000 else 2):
                spent = {name: cost(s, bodies, streams, 4) for name, s in servers.items()}
                ratios.append(spent["sidecar"] / spent["no-op"])
            rows.append(_row(f"CPU per chunk / no-op, {length} chunks", statistics.median(ratios)))
    finally:
        _stop(servers)
    return rows


def _by_open_streams(home: Path, console: Console) -> list[Row]:
    """Cost per chunk with so many streams at once, over the no-op's, and the memory of each."""
    rows = []
    for streams in _track(OPEN, "by open streams", console):
        servers = _started({"no-op": noop("asyncio"), "sidecar": sidecar}, home)
        try:
            # Memory first: what a server has once used, it uses again.
            each = memory(servers["sidecar"], long_body_messages(25)[:-1], streams) / 1024
            bodies = long_body_messages(max(24, 20_000 // streams))
            ratios = []
            for _ in range(5):
                spent = {name: cost(s, bodies, streams, streams) for name, s in servers.items()}
                ratios.append(spent["sidecar"] / spent["no-op"])
        finally:
            _stop(servers)
        rows.append(
            _row(f"CPU per chunk / no-op, {streams} streams at once", statistics.median(ratios))
        )
        rows.append(_row(f"memory per open stream, KiB, {streams} streams", each, 64))
    return rows


def _row(what: str, value: float, budget: float | None = None) -> Row:
    met = budget is None or round(value, 2) <= budget
    return {"what": what, "value": round(value, 3), "budget": budget, "met": met}


def _quartiles(found: list[float]) -> list[float]:
    """Between which half of the rounds lie."""
    if len(found) < 2:
        return [round(one, 3) for one in (*found, *found)]
    low, _, high = statistics.quantiles(found, n=4)
    return [round(low, 3), round(high, 3)]


def _track(items: Any, title: str, console: Console) -> Any:
    return track(items, title, console=console, disable=not console.is_terminal)


def _show(title: str, rows: list[Row]) -> None:
    table = Table("what", "measured", "half of the rounds", "budget", "", title=title)
    table.title_justify = "left"
    for row in rows:
        mark = "[green]met[/]" if row["met"] else "[red]missed[/]"
        budget = row["budget"]
        limit = ("", "") if budget is None else (f"<= {budget:g}", mark)
        spread = " to ".join(f"{one:.2f}" for one in row.get("quartiles", ()))
        table.add_row(row["what"], f"{row['value']:.2f}", spread, *limit)
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
