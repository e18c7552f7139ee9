"""The promises of docs/health.md, kept through real Envoy: how soon a fault is out, and that a
healthy unit stays in.

    python -m bench.acceptance [--responses N] [--runs N] [--seed N] [--only WHAT] [--json]

    garbage   a unit that answers only "!!!": answers until its quarantine
    tenth     one in ten answers is corrupt, the others are the corpus' healthy ones: the same
    alike     healthy answers, hard negatives first, N of them; a retry of a request gets the answer
              that the other unit gave
    anew      the same, but each answer is drawn anew, also a retry's

Runs the standalone configuration on free ports: Envoy, one sidecar, two engines that replay the
labelled exchanges of tests/corpus. Requests are hidden: the sidecar sees answers alone. Exit code 1
when a promise is not kept.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, TaskID

from bench.accuracy import FILES, Case, body_of, cases
from tests.e2e.gateway import CHAT, Gateway
from tests.e2e.upstream import BANG_JSON, BANG_STREAM, Reply, Request, Script, Upstream, answers

CLIENTS = 100
AT_ONCE = 8
PATIENCE = 100
"""Looks, a fiftieth of a second apart, at a book that is about to be written."""

PROMISED = {"garbage": 3, "tenth": 60}
"""Answers until quarantine: at most, and as the median of the runs."""

WHAT = ("garbage", "tenth", "alike", "anew")
CASE = "x-bench-case"

Draw = Callable[[Case], Case]
"""Which exchange a unit answers when it is asked for one."""


@dataclass
class Outcome:
    """Of one kind of traffic."""

    what: str
    runs: int
    quarantined_after: list[int] = field(default_factory=list)
    """Answers of unit-a until it was quarantined, a number a run that was."""
    answers: int = 0
    corrupt: int = 0
    """Answers of unit-a that were called corrupt."""
    pairs: dict[str, float] = field(default_factory=dict)

    @property
    def kept(self) -> bool:
        """Whether the promise was."""
        found = sorted(self.quarantined_after)
        if self.what == "garbage":
            return len(found) == self.runs and found[-1] <= PROMISED["garbage"]
        if self.what == "tenth":
            missed = [10**9] * (self.runs - len(found))
            return statistics.median(found + missed) <= PROMISED["tenth"]
        return not found


def healthy() -> list[Case]:
    """Healthy exchanges of the corpus, as engines answered them."""
    return [case for case in cases(FILES[0]) if case["label"] == "healthy"]


def replay(every: list[Case], draw: Draw) -> Script:
    """An engine that answers the case that is asked for, or what ``draw`` puts in its place."""
    bodies = {case["id"]: body_of(case) for case in every}
    by_id = {case["id"]: case for case in every}

    async def script(request: Request, reply: Reply) -> None:
        case = draw(by_id[request.headers[CASE]])
        headers = {name.lower(): value for name, value in case["response"]["headers"].items()}
        kind = headers.pop("content-type", "application/json")
        more = {k: v for k, v in headers.items() if k == "content-encoding"}
        await reply.head(case["response"]["status"], kind, more)
        body = bodies[case["id"]]
        for piece in body.split(b"\n\n") if kind == "text/event-stream" else [body]:
            if piece:
                await reply.write(piece + b"\n\n" * (kind == "text/event-stream"))
        await reply.end()

    return script


def sometimes(share: float, rng: random.Random, script: Script) -> Script:
    """``script``, but for a share of the answers that is nothing but "!!!"."""
    broken = answers(BANG_STREAM, BANG_JSON)

    async def either(request: Request, reply: Reply) -> None:
        await (broken if rng.random() < share else script)(request, reply)

    return either


def anew(every: list[Case], rng: random.Random) -> Draw:
    """Any exchange of the same API."""
    groups: dict[str, list[Case]] = {}
    for case in every:
        groups.setdefault(case["request"]["path"], []).append(case)
    return lambda case: rng.choice(groups[case["request"]["path"]])


async def ask(g: Gateway, case: Case, rng: random.Random) -> None:
    """One request of one of many clients, read to its end."""
    client = f"10.0.{rng.randrange(CLIENTS)}.1"
    headers = {CASE: case["id"], "x-forwarded-for": client}
    await g.ask(path=case["request"]["path"], headers=headers, stream=bool(rng.getrandbits(1)))


async def until_out(g: Gateway, every: list[Case], rng: random.Random, most: int) -> int | None:
    """Asks one by one. Answers of unit-a until it is quarantined, None if it is not."""
    seen = 0
    for _ in range(most):
        await ask(g, rng.choice(every), rng)
        for _ in range(PATIENCE):  # the book is written after the last byte
            unit = await g.unit("unit-a")
            if sum(unit["counts"].values()) > seen:
                break
            await asyncio.sleep(0.02)
        seen = int(sum(unit["counts"].values()))
        if unit["state"] == "quarantine":
            return seen
    return None


async def soak(
    g: Gateway, every: list[Case], rng: random.Random, number: int, step: Callable[[int], None]
) -> int | None:
    """Asks ``number`` times, several at once. Answers of unit-a until it was quarantined."""
    left = iter(range(number))

    async def client() -> None:
        for at in left:
            await ask(g, every[order[at % len(order)]], rng)

    order = list(range(len(every)))
    rng.shuffle(order)
    clients = [asyncio.create_task(client()) for _ in range(AT_ONCE)]
    done = 0
    try:
        while not all(task.done() for task in clients):
            await asyncio.sleep(0.5)
            for task in clients:
                if task.done():
                    task.result()
            unit = await g.unit("unit-a")
            seen = int(sum(unit["counts"].values()))
            step(seen - done)
            done = seen
            if unit["state"] == "quarantine":
                return seen
    finally:
        for task in clients:
            task.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
    return None


async def measure(
    what: str, responses: int, runs: int, seed: int, step: Callable[[float], None]
) -> Outcome:
    """All runs of one kind of traffic, each with an Envoy, a sidecar and a store of its own."""
    every = healthy()
    if what in PROMISED:  # the broken answers are chat completions
        every = [case for case in every if case["request"]["path"] == CHAT]
    outcome = Outcome(what, runs)
    for run in range(runs):
        rng = random.Random(f"{what} {seed} {run}")
        draw = anew(every, rng) if what == "anew" else (lambda case: case)
        well = replay(every, draw)
        share = {"garbage": 1.0, "tenth": 0.1}.get(what, 0.0)
        first = sometimes(share, rng, well) if share else well
        with tempfile.TemporaryDirectory(prefix="acceptance-") as folder:
            async with Gateway(Path(folder), Upstream(first), Upstream(well)) as g:
                if share:
                    out = await until_out(g, every, rng, 1000)
                    step(1 / runs)
                else:
                    out = await soak(
                        g, every, rng, responses, lambda n: step(n / (responses * runs))
                    )
                if out is not None:
                    outcome.quarantined_after.append(out)
                counts = (await g.unit("unit-a"))["counts"]
                outcome.answers += sum(counts.values())
                outcome.corrupt += counts["corrupt"]
                for name, value in (await g.metrics()).items():
                    if name.startswith("semantic_extproc_pairs_total"):
                        outcome.pairs[name] = outcome.pairs.get(name, 0.0) + value
    return outcome


def report(outcome: Outcome) -> str:
    """One row."""
    found = sorted(outcome.quarantined_after)
    share = f"{len(found)} of {outcome.runs}"
    median = f"{statistics.median(found):.0f}" if found else "-"
    most = f"{found[-1]}" if found else "-"
    rate = f"{100 * outcome.corrupt / max(1, outcome.answers):.2f} %"
    kept = "yes" if outcome.kept else "NO"
    return f"| {outcome.what} | {share} | {median} | {most} | {outcome.answers} | {rate} | {kept} |"


def main() -> None:
    """Prints a table in Markdown, or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--responses", type=int, default=20_000, help="of alike and anew, a run")
    parser.add_argument("--runs", type=int, default=9, help="of garbage and tenth; default 9")
    parser.add_argument("--soaks", type=int, default=1, help="runs of alike and anew; default 1")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=WHAT, action="append", help="may be given several times")
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    options = parser.parse_args()
    console = Console(stderr=True)
    outcomes: list[Outcome] = []
    with Progress(console=console, disable=not console.is_terminal) as progress:
        for what in options.only or WHAT:
            task: TaskID = progress.add_task(what, total=1.0)
            runs = options.runs if what in PROMISED else options.soaks
            outcomes.append(
                asyncio.run(
                    measure(
                        what,
                        options.responses,
                        runs,
                        options.seed,
                        lambda share, task=task: progress.advance(task, share),  # type: ignore[misc]
                    )
                )
            )
    if options.json:
        found: list[dict[str, Any]] = [{**asdict(o), "kept": o.kept} for o in outcomes]
        print(json.dumps(found, indent=2))
    else:
        print("| traffic | runs quarantined | median | most | answers | called corrupt | kept |")
        print("|---|---|---|---|---|---|---|")
        for outcome in outcomes:
            print(report(outcome))
    sys.exit(not all(outcome.kept for outcome in outcomes))


if __name__ == "__main__":
    main()
