"""The stated error rate, simulated: how soon faults are found, how often healthy units are blamed.

Each figure is of RUNS runs of the real book (``extproc.health.Ledger``) with random traffic.

usage: python -m bench.health [--runs N]
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Callable, Iterator
from multiprocessing import Pool
from typing import NamedTuple

from rich.console import Console
from rich.progress import Progress

from extproc.detect import Kind
from extproc.health import Ledger, Response, State
from extproc.units import Unit

UNITS = [
    Unit("canary", model="m", release="r1", fallback=("stable",)),
    Unit("stable", model="m", release="r1", verified=True),
]

Rate = Callable[[int], float]
"""Corrupt rate of the unit's n-th response."""


class Scenario(NamedTuple):
    """One row. ``before``: responses at ``base`` before the fault; ``stable``: responses of the
    stable sibling for each of the unit's own."""

    name: str
    rate: float
    before: int = 0
    base: float = 0.0
    limit: int = 5_000
    drift: int = 0
    stable: int = 0
    suspects: tuple[float, float] = (0.0, 0.0)


FAULTS = [
    Scenario("answers only garbage", 1.0),
    Scenario("50 % corrupt", 0.5),
    Scenario("20 % corrupt", 0.2),
    Scenario("10 % corrupt", 0.1),
    Scenario("5 % corrupt", 0.05),
    Scenario("10 % corrupt, after 2 000 healthy answers", 0.1, before=2000),
    Scenario("5 % corrupt, after 2 000 healthy answers", 0.05, before=2000),
    Scenario("2 % corrupt, after 2 000 healthy answers", 0.02, before=2000, limit=20_000),
    Scenario("drifts from 0 to 20 % in 2 000 answers, after 2 000", 0.2, before=2000, drift=2000),
    Scenario("canary with 1 % of the traffic, 20 % corrupt", 0.2, stable=99, limit=600),
    Scenario("canary with 1 % of the traffic, 5 % corrupt", 0.05, stable=99, limit=600),
    Scenario(
        "canary, 25 % suspect beside 2 % of the stable unit", 0.0, stable=9, suspects=(0.25, 0.02)
    ),
]

HEALTHY = [
    Scenario("nothing ever looks corrupt", 0.0, limit=20_000),
    Scenario("0.1 % look corrupt", 0.001, limit=20_000),
    Scenario("0.2 % look corrupt", 0.002, limit=20_000),
    Scenario("0.5 % look corrupt", 0.005, limit=20_000),
    Scenario("1 % look corrupt", 0.01, limit=20_000),
]


def _rates(s: Scenario) -> Iterator[float]:
    for _ in range(s.before):
        yield s.base
    for n in range(s.limit):
        yield s.rate * min(1.0, (n + 1) / s.drift) if s.drift else s.rate


def run(work: tuple[Scenario, int]) -> int | None:
    """Answers of the unit, from the fault on, until its quarantine; None if there is none."""
    s, seed = work
    rng = random.Random(seed)
    ledger = Ledger(UNITS)

    def answer(unit: str, corrupt: float, suspect: float) -> None:
        draw = rng.random()
        kind = Kind.CORRUPT if draw < corrupt else Kind.CLEAN
        if kind is Kind.CLEAN and draw < corrupt + suspect:
            kind = Kind.SUSPECT
        ledger.record(Response(unit, "r1", "short", "h", kind, (), "", 0.0))

    for n, rate in enumerate(_rates(s)):
        for _ in range(s.stable):
            answer("stable", 0.001, s.suspects[1])
        answer("canary", rate, s.suspects[0] if n >= s.before else s.suspects[1])
        if ledger.unit_state("canary") is State.QUARANTINE:
            return n - s.before + 1
    return None


def main() -> None:
    """Prints two tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    runs = parser.parse_args().runs
    console = Console(stderr=True)
    with Pool() as pool, Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("simulating", total=runs * len(FAULTS + HEALTHY))

        def results(s: Scenario) -> list[int | None]:
            out = []
            for result in pool.imap_unordered(run, ((s, seed) for seed in range(runs))):
                progress.advance(task)
                out.append(result)
            return out

        print("| a unit that | found | answers until quarantine: median | 90 % within |")
        print("|---|---|---|---|")
        for s in FAULTS:
            found = sorted(n for n in results(s) if n is not None and n > 0)
            share = f"{100 * len(found) / runs:.0f} %"
            median = f"{statistics.median(found):.0f}" if found else "-"
            most = f"{found[int(0.9 * (len(found) - 1))]}" if found else "-"
            print(f"| {s.name} | {share} | {median} | {most} |")
        print()
        print("| a healthy unit of which | quarantined within 20 000 answers |")
        print("|---|---|")
        for s in HEALTHY:
            blamed = sum(n is not None for n in results(s))
            print(f"| {s.name} | {100 * blamed / runs:.0f} % |")


if __name__ == "__main__":
    main()
