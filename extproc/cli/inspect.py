"""``semantic-extproc inspect``: judge recorded exchanges."""

from __future__ import annotations

import json
import math
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from extproc.cli.exchanges import Problem
    from extproc.detect import Catalogue, Finding, Verdict
    from extproc.inspection import Exchange
    from extproc.wire import Router


class Output(StrEnum):
    """How verdicts are printed."""

    TABLE = "table"
    JSON = "json"


AsJson: Any = typer.Option(False, "--json", help="The same as --output json.")


def inspect(
    paths: list[str] = typer.Argument(
        ...,
        metavar="PATH...",
        help="JSON lines of exchanges (.jsonl, .jsonl.gz), bodies (.sse, .json, .ndjson), HAR "
        "files, or - for standard input.",
    ),
    output: Output = typer.Option(
        Output.TABLE, "--output", "-o", help="A table for people, or one JSON line an exchange."
    ),
    as_lines: bool = AsJson,
    split: int = typer.Option(
        0, "--split", min=0, help="Feed bodies in random pieces of 1 to N bytes; 0: whole."
    ),
    seed: int = typer.Option(0, "--seed", help="Seed of --split."),
    everything: bool = typer.Option(
        False, "--all", help="List clean and unchecked responses in the table, too."
    ),
    off: list[str] = typer.Option([], "--off", help="A detector to leave out; repeatable."),
    config: Path | None = typer.Option(
        None, "--config", "-c", help="A configuration whose paths and policies count."
    ),
    unit: str = typer.Option(
        "",
        "--unit",
        help="The unit of --config that answered; else a baseline of the model counts.",
    ),
) -> None:
    """Judge recorded LLM responses, as the sidecar would have.

    A line that cannot be used is reported with its place and field, and skipped.

    Exit codes: 0 nothing corrupt, 1 something corrupt, 2 some input unusable (whatever else).
    """
    from extproc.cli.exchanges import Problem

    output = Output.JSON if as_lines else output
    rules = read_rules(config, unit, off)

    kinds: Counter[str] = Counter()
    problems = 0
    shown: list[tuple[Exchange, Verdict]] = []
    with ExitStack() as stack:
        for result in verdicts(paths, split, seed, rules, stack):
            if isinstance(result, Problem):
                problems += 1
                typer.echo(str(result), err=True)
                continue
            item, verdict = result
            kinds[verdict.kind] += 1
            if output is Output.JSON:
                typer.echo(json.dumps(as_json(item, verdict), allow_nan=False))
            elif everything or verdict.kind in ("corrupt", "suspect"):
                shown.append((item, verdict))
    if output is Output.TABLE:
        _table(shown, kinds)
    raise typer.Exit(2 if problems else 1 if kinds["corrupt"] else 0)


def as_json(exchange: Exchange, verdict: Verdict) -> dict[str, Any]:
    """The line that ``--output json`` prints. A value that is no finite number becomes null."""
    return {
        "id": exchange.id,
        "verdict": str(verdict.kind),
        "findings": [
            {
                "detector": finding.detector,
                "reason": finding.reason,
                "value": _finite(finding.value),
                "threshold": _finite(finding.threshold),
            }
            for finding in verdict.findings
        ],
        "first_token": verdict.first_token,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class Rules:
    """How exchanges are judged, as a configuration says."""

    router: Router
    catalogue: Catalogue
    by_model: Mapping[str, Catalogue]

    def judge(self, exchange: Exchange, pieces: Iterator[bytes]) -> Verdict:
        """The verdict on an exchange that arrived in ``pieces``."""
        from extproc.inspection import judge

        catalogue = self.by_model.get(model_of(exchange), self.catalogue)
        return judge(exchange, pieces, catalogue=catalogue, router=self.router)


def model_of(exchange: Exchange) -> str:
    """The model that the request asks for; "" where that is not known."""
    body = exchange.request_body
    model = body.get("model") if isinstance(body, dict) else ""
    return model if isinstance(model, str) else ""


def read_rules(config: Path | None, unit: str, off: list[str]) -> Rules:
    """The rules of a configuration, of a unit if one is named. Exits with 2 on a bad one."""
    from extproc.cli.common import load_or_exit
    from extproc.config import Settings
    from extproc.detect import Policy, make_catalogue
    from extproc.wire import Router

    settings = load_or_exit(config) if config else Settings.model_construct()
    without = Policy(off=frozenset(off))
    try:
        common = make_catalogue(settings.policy().under(without))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--off") from None
    router = Router(settings.paths)
    if unit:
        known = [entry.id for entry in settings.units]
        if unit not in known:
            there = f"there are: {', '.join(known)}" if known else "give --config a file with units"
            raise typer.BadParameter(f"no unit {unit!r}; {there}", param_hint="--unit")
        policy = settings.policy_of(unit).under(without)
        return Rules(router, make_catalogue(policy), {})
    baselines = {
        model: make_catalogue(settings.policy().under(baseline.policy()).under(without))
        for model, baseline in settings.baselines.items()
    }
    return Rules(router, common, baselines)


def verdicts(
    paths: list[str], split: int, seed: int, rules: Rules, stack: ExitStack
) -> Iterator[tuple[Exchange, Verdict] | Problem]:
    """The verdict on each exchange of the files, in order, or why it cannot be used."""
    from extproc.cli.exchanges import Problem, read_exchanges

    advance = _progress(paths, stack)
    number = 0
    for path in paths:
        try:
            file = _open(path)
        except OSError as error:
            yield Problem(path, "", f"cannot be read: {error.strerror or error}")
            continue
        with file as stream:
            for item in read_exchanges("stdin" if path == "-" else path, stream):
                advance(stream)
                if isinstance(item, Problem):
                    yield item
                    continue
                number += 1
                pieces = cut(item.body, split, random.Random(f"{seed}/{number}"))
                yield item, rules.judge(item, pieces)


def cut(body: bytes, most: int, rng: random.Random) -> Iterator[bytes]:
    """``body`` in pieces of 1 to ``most`` bytes; whole with 0."""
    if most == 0:
        yield body
        return
    start = 0
    while start < len(body):
        end = start + rng.randint(1, most)
        yield body[start:end]
        start = end


def _open(path: str) -> AbstractContextManager[IO[bytes]]:
    if path == "-":
        return nullcontext(sys.stdin.buffer)
    return Path(path).open("rb")


def _progress(paths: list[str], stack: ExitStack) -> Any:
    """A bar on a terminal's standard error, by bytes read; elsewhere nothing."""
    if not sys.stderr.isatty():
        return lambda stream: None
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    sizes = {path: Path(path).stat().st_size for path in paths if Path(path).is_file()}
    progress = stack.enter_context(
        Progress(
            TextColumn("inspecting"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[count]} exchanges"),
            console=Console(stderr=True),
            transient=True,
        )
    )
    known = None if "-" in paths else float(sum(sizes.values()))
    task = progress.add_task("", total=known, count=0)
    done = count = 0
    current: IO[bytes] | None = None
    place = 0

    def advance(stream: IO[bytes]) -> None:
        nonlocal done, count, current, place
        if stream is not current:
            done += place
            current = stream
        count += 1
        if known:
            place = stream.tell()
        progress.update(task, completed=done + place, count=count)

    return advance


def terminal() -> Any:
    """A console on standard output; wide lines where that is no terminal."""
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=160)


def _table(shown: list[tuple[Exchange, Verdict]], kinds: Counter[str]) -> None:
    from rich.table import Table
    from rich.text import Text

    from extproc.plain import on_one_line

    styles = {"corrupt": "bold red", "suspect": "yellow", "clean": "green", "unchecked": "dim"}
    console = terminal()
    if shown:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for title in ("exchange", "verdict", "token", "findings"):
            table.add_column(title, justify="right" if title == "token" else "left")
        for exchange, verdict in shown:
            kind = str(verdict.kind)
            table.add_row(
                Text(on_one_line(str(exchange.id))),
                Text(kind, style=styles[kind]),
                Text("" if verdict.first_token is None else str(verdict.first_token)),
                Text("\n".join(_say(finding) for finding in verdict.findings)),
            )
        console.print(table)
        console.print()
    counts = ", ".join(f"{kinds[kind]} {kind}" for kind in styles if kinds[kind])
    console.print(f"{kinds.total()} inspected: {counts}" if kinds else "nothing inspected")


def _say(finding: Finding) -> str:
    said = f"{finding.name} {finding.value:g} (limit {finding.threshold:g})"
    return f"{said}: {finding.shape}" if finding.shape else said
