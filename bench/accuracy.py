"""How often the detectors are right: on the corpus, on recorded servers, on natural text.

    python -m bench.accuracy [--passages N] [--seed N] [--natural DIR]... [--hidden] [--misses]

Prints markdown: what share of each shape is called corrupt, beside the public guards on the same
answers, and how often natural text that is installed on this machine is. Natural passages are
judged four times: as a whole body and as a stream of token-like deltas, each ended by ``stop`` and
by ``length``, with no request in sight. They come from folders that nothing was trained on.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from bench import natural
from bench.public import GUARDS, tokens_of
from extproc.detect import Inspector, Kind, Verdict, Weight
from extproc.wire import (
    Channel,
    Event,
    Finish,
    Reader,
    RequestFacts,
    Router,
    Status,
    Text,
    apart,
)

CORPUS = Path(__file__).parents[1] / "tests/corpus"
FILES = ("exchanges.jsonl.gz", "captures.jsonl.gz", "generations.jsonl.gz")
ENDINGS = ("stop", "length")
PIECE = 97
"""Bytes fed at a time: cuts everywhere."""

OURS = "semantic-extproc"
Case = dict[str, Any]


def cases(name: str) -> Iterator[Case]:
    """The labelled exchanges of one file that were answered with 200."""
    with gzip.open(CORPUS / name, "rt") as file:
        for line in file:
            case = json.loads(line)
            if case["response"]["status"] == 200:
                yield case


def body_of(case: Case) -> bytes:
    response = case["response"]
    if "body" in response:
        return str(response["body"]).encode("utf-8", "surrogatepass")
    return base64.b64decode(response["body_b64"])


def facts_of(case: Case) -> RequestFacts:
    request = case["request"]
    body = request.get("body")
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except ValueError:
            body = None
    return RequestFacts.parse(request["method"], request["path"], body)


def events_of(case: Case) -> list[list[Event]]:
    """Events of a case, a list for each piece of the body."""
    headers = {name.lower(): value for name, value in case["response"]["headers"].items()}
    route = Router().route(case["request"]["path"], headers.get("content-type", ""))
    if route is None:
        return []
    reader = Reader(route.new_dialect(), route.framing, headers.get("content-encoding", ""))
    body = body_of(case)
    out: list[list[Event]] = [[Status(case["response"]["status"])]]
    out.extend(apart(reader.feed(body[at : at + PIECE])) for at in range(0, len(body), PIECE))
    out.append(reader.finish())
    return out


def judge(batches: Sequence[Sequence[Event]], request: RequestFacts | None) -> Verdict:
    """The verdict on events."""
    inspector = Inspector(request=request)
    for batch in batches:
        inspector.feed(batch)
    return inspector.finish()


def text_of(batches: Sequence[Sequence[Event]]) -> tuple[str, list[str]]:
    """What a guard on the answer's text sees: content, or else reasoning, of the first choice."""
    for channel in (Channel.CONTENT, Channel.REASONING, Channel.TOOL_ARGUMENTS):
        pieces = [
            event
            for batch in batches
            for event in batch
            if type(event) is Text and event.channel is channel and event.choice == 0
        ]
        text = "".join(piece.text for piece in pieces)
        if text:
            streamed = any(piece.tokens for piece in pieces)
            return text, [p.text for p in pieces] if streamed else tokens_of(text)
    return "", []


def upper(hits: int, total: int, z: float = 1.96) -> float:
    """Wilson's upper bound on a rate."""
    if not total:
        return 1.0
    p = hits / total
    middle = p + z * z / (2 * total)
    spread = z * math.sqrt(p * (1 - p) / total + z * z / (4 * total * total))
    return (middle + spread) / (1 + z * z / total)


def percent(hits: int, total: int) -> str:
    return f"{100 * hits / total:.1f} %" if total else "-"


def labelled(console: Console, hidden: bool, misses: bool) -> tuple[Counter[Any], Counter[Any]]:
    """Hits and totals, by (name, set, label, shape)."""
    hits: Counter[Any] = Counter()
    totals: Counter[Any] = Counter()
    for file in FILES:
        name = file.partition(".")[0]
        for case in track(
            list(cases(file)), name, console=console, disable=not console.is_terminal
        ):
            label = case["label"]
            if label == "corrupt" and case.get("difficulty") == "oracle":
                label = "oracle"
            batches = events_of(case)
            verdict = judge(batches, None if hidden else facts_of(case))
            key = (name, label, case["shape"])
            totals[key] += 1
            corrupt = verdict.kind is Kind.CORRUPT
            hits[(OURS, *key)] += corrupt
            hits[("suspect", *key)] += verdict.kind is Kind.SUSPECT
            if misses and label != "oracle" and corrupt != (label == "corrupt"):
                found = ", ".join(finding.name for finding in verdict.findings)
                console.print(f"- {case['id']} ({label}, {case['shape']}): {verdict.kind} {found}")
            text, tokens = text_of(batches)
            for guard, alarms in GUARDS.items():
                hits[(guard, *key)] += bool(text) and alarms(text, tokens)
    return hits, totals


def passage_events(text: str, streamed: bool, ending: str) -> list[list[Event]]:
    pieces = tokens_of(text) if streamed else [text]
    tokens = int(streamed)
    out: list[list[Event]] = [[Text(0, Channel.CONTENT, piece, tokens)] for piece in pieces]
    return [*out, [Finish(0, ending)]]


def installed(
    console: Console, count: int, seed: int, extra: Sequence[Path], misses: bool
) -> tuple[Counter[Any], Counter[Any]]:
    """Alarms and totals on natural text, by (name, kind)."""
    found = natural.files([*natural.ROOTS, *extra])
    found = {kind: [p for p in paths if natural.held_back(p)] for kind, paths in found.items()}
    hits: Counter[Any] = Counter()
    totals: Counter[Any] = Counter()
    drawn = natural.passages(count, seed, found=found)
    for passage in track(
        drawn, "natural", total=count, console=console, disable=not console.is_terminal
    ):
        totals[passage.kind] += 1
        for streamed in (False, True):
            for ending in ENDINGS:
                verdict = judge(passage_events(passage.text, streamed, ending), None)
                mode = f"{'stream' if streamed else 'body'}, {ending}"
                hits[(OURS, passage.kind, mode)] += verdict.kind is Kind.CORRUPT
                hits[("suspect", passage.kind, mode)] += verdict.kind is Kind.SUSPECT
                if misses and verdict.kind is Kind.CORRUPT:
                    proofs = [f for f in verdict.findings if f.weight is Weight.PROOF]
                    console.print(f"- {passage.source} ({mode}): {proofs[0].name}")
        tokens = tokens_of(passage.text)
        for guard, alarms in GUARDS.items():
            hits[(guard, passage.kind)] += alarms(passage.text, tokens)
    return hits, totals


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join("---" for _ in head) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def report(
    hits: Counter[Any], totals: Counter[Any], alarms: Counter[Any], passages: Counter[Any]
) -> str:
    """The markdown that the README shows."""
    out = []
    sums = {label: sum(n for key, n in totals.items() if key[1] == label) for label in
            ("corrupt", "healthy", "oracle")}  # fmt: skip
    natural_total = sum(passages.values())
    rows = []
    for name in (OURS, *GUARDS):
        caught = {
            label: sum(hits[(name, *key)] for key in totals if key[1] == label) for label in sums
        }
        if name == OURS:
            modes = sorted({key[2] for key in alarms if key[0] == OURS})
            worst = max(
                (sum(alarms[(OURS, kind, mode)] for kind in passages) for mode in modes), default=0
            )
        else:
            worst = sum(alarms[(name, kind)] for kind in passages)
        rows.append(
            [
                f"**{name}**" if name == OURS else name,
                percent(caught["corrupt"], sums["corrupt"]),
                percent(caught["healthy"], sums["healthy"]),
                f"{100 * worst / natural_total:.2f} %" if natural_total else "-",
            ]
        )
    head = [
        "detector",
        f"corrupt, caught ({sums['corrupt']})",
        f"healthy, flagged ({sums['healthy']})",
        f"natural text, flagged ({natural_total})",
    ]
    out.append(table(head, rows))
    shapes: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for key, n in totals.items():
        place = (key[1], key[2])
        shapes[place]["n"] += n
        for name in (OURS, "suspect", *GUARDS):
            shapes[place][name] += hits[(name, *key)]
    for label, title in (("corrupt", "Caught"), ("healthy", "Flagged though healthy")):
        rows = []
        for (one, shape), counts in sorted(shapes.items()):
            if one != label or (label == "healthy" and not (counts[OURS] or counts["suspect"])):
                continue
            best = max(GUARDS, key=lambda guard: counts[guard])
            rows.append(
                [
                    shape,
                    str(counts["n"]),
                    str(counts[OURS]),
                    str(counts["suspect"]),
                    f"{counts[best]} ({best})" if counts[best] else "0",
                ]
            )
        out.append(
            table(["shape", "cases", "corrupt", "suspect", "most by one public guard"], rows)
        )
        out[-1] = f"{title}, by shape:\n\n{out[-1]}"
    rows = []
    modes = sorted({key[2] for key in alarms if key[0] == OURS})
    for mode in modes:
        corrupt = sum(alarms[(OURS, kind, mode)] for kind in passages)
        suspect = sum(alarms[("suspect", kind, mode)] for kind in passages)
        bound = f"{100 * upper(corrupt, natural_total):.2f} %"
        rows.append([mode, str(natural_total), str(corrupt), bound, str(suspect)])
    if rows:
        head = ["natural text as", "passages", "corrupt", "95 % upper bound", "suspect"]
        out.append(table(head, rows))
        kinds = ", ".join(f"{kind} {n}" for kind, n in sorted(passages.items()))
        out.append(f"Passages by kind: {kinds}.")
    return "\n\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--passages", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--natural", type=Path, action="append", default=[])
    parser.add_argument("--hidden", action="store_true", help="judge without the requests")
    parser.add_argument("--misses", action="store_true", help="name every wrong verdict")
    options = parser.parse_args()
    console = Console(stderr=True)
    hits, totals = labelled(console, options.hidden, options.misses)
    alarms, passages = installed(
        console, options.passages, options.seed, options.natural, options.misses
    )
    print(report(hits, totals, alarms, passages))


if __name__ == "__main__":
    main()
