"""``semantic-extproc probe``: active probes by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from extproc.cli.admin import Admin, Api, Refused, Unreachable, leave, operator, unit_ids
from extproc.cli.common import load_or_exit
from extproc.cli.inspect import terminal

if TYPE_CHECKING:
    from extproc.probes.matrix import Matrix, Subject
    from extproc.probes.settings import ProberSettings

KINDS = ("golden", "chat", "long", "json", "tools", "logprobs", "embedding")
_KINDS = ", ".join(KINDS)
STYLES = {"passed": "green", "failed": "bold red", "skipped": "dim", "error": "yellow"}

PATIENCE = 660.0
"""Seconds between two results of the sidecar's: one probe may hold several slow requests."""


def probe(
    unit: str = typer.Argument(
        "", metavar="[UNIT]", autocompletion=unit_ids, help="Id of the unit; all without one."
    ),
    kinds: list[str] = typer.Option(
        [], "--kind", "-k", help=f"Only this kind; repeatable. One of {_KINDS}."
    ),
    classes: list[str] = typer.Option([], "--class", help="Only this context class; repeatable."),
    as_json: bool = typer.Option(False, "--json", help="One JSON line a probe, as it ends."),
    admin: str = Admin,
    config: Path | None = typer.Option(
        None, "--config", "-c", help="Probe the units of this file from here, without a sidecar."
    ),
    url: str = typer.Option(
        "", "--url", help="Probe this OpenAI-compatible server from here, with or without /v1."
    ),
    model: str = typer.Option("", "--model", help="With --url: the model; the first without."),
    api_key_env: str = typer.Option(
        "", "--api-key-env", metavar="NAME", help="With --url: the variable with the API key."
    ),
    golden: Path | None = typer.Option(
        None, "--golden", help="With --url: a file of golden prompts."
    ),
) -> None:
    """Probe a unit now: every kind of probe, in every context class, each judged.

    By default the running sidecar probes, within its budget: results are kept, failures count as
    corrupt verdicts. With --config or --url this command probes itself: nothing is kept.

    Exit codes: 0 all passed (or the server does not offer it), 1 something failed, 2 something
    could not be probed, or no sidecar answers.
    """
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]!r}: one of {_KINDS}", param_hint="--kind")
    if url and config:
        raise typer.BadParameter("--url and --config exclude each other", param_hint="--url")
    if not url and (model or api_key_env or golden):
        raise typer.BadParameter("belongs to --url", param_hint="--model/--api-key-env/--golden")
    try:
        if url:
            plan = _of_url(url, model, api_key_env, golden, kinds, classes)
        elif config is not None:
            plan = _of_settings(config, unit, kinds, classes)
        else:
            plan = _of_sidecar(admin, unit, kinds, classes)
        outcomes = _show(plan, as_json)
    except (Unreachable, Refused) as problem:
        leave(problem)
    raise typer.Exit(1 if "failed" in outcomes else 2 if "error" in outcomes else 0)


@dataclass
class Plan:
    """``cells``: (unit, class, kind) that will be probed, in this order. ``results``: one for
    each, as they come."""

    cells: list[tuple[str, str, str]]
    results: Iterator[dict[str, Any]]


# -- who probes -----------------------------------------------------------------------------------


def _of_sidecar(admin: str, unit: str, kinds: list[str], classes: list[str]) -> Plan:
    api = Api(admin)
    there = api.get("/api/units")["units"]
    if unit and unit not in (ids := [entry["id"] for entry in there]):
        from extproc.units import no_such

        raise Refused(404, no_such(unit, ids))
    units = [unit] if unit else [entry["id"] for entry in there if entry.get("probes")]
    if not units:
        raise Refused(404, "no unit is probed: give one a probe.base_url (docs/probes.md)")
    cells: list[tuple[str, str, str]] = []
    for name in units:
        described = api.get(api.unit(name, "probes"))
        known = {cell["class"] for cell in described["cells"]}
        _check_classes(classes, known)
        cells += [
            (name, cell["class"], cell["kind"])
            for cell in described["cells"]
            if (not kinds or cell["kind"] in kinds) and (not classes or cell["class"] in classes)
        ]

    def results() -> Iterator[dict[str, Any]]:
        asked = {"kinds": kinds, "classes": classes, "reason": "by hand", "by": operator()}
        for name in units:
            for line in api.lines(api.unit(name, "probes/run"), asked, PATIENCE):
                yield {"unit": name, **line}

    return Plan(cells, results())


def _of_settings(path: Path, unit: str, kinds: list[str], classes: list[str]) -> Plan:
    settings = load_or_exit(path)
    from extproc.probing import bands, prober_settings, subjects

    found = [each for each in subjects(settings) if unit in ("", each.unit.id)]
    if not found:
        said = f"unit {unit!r} has no probe.base_url" if unit else "no unit has a probe.base_url"
        raise typer.BadParameter(said, param_hint="UNIT")
    return _direct(found, bands(settings), prober_settings(settings), kinds, classes)


def _of_url(
    url: str,
    model: str,
    api_key_env: str,
    golden: Path | None,
    kinds: list[str],
    classes: list[str],
) -> Plan:
    from extproc.config import Settings
    from extproc.config.golden import DEFAULT, load_golden
    from extproc.probes.errors import Misconfigured
    from extproc.probes.kinds import make_probes
    from extproc.probes.matrix import Subject
    from extproc.probes.settings import ProberSettings
    from extproc.probes.target import Target
    from extproc.probing import bands
    from extproc.units import Unit

    try:
        prompts = load_golden(golden) if golden is not None else DEFAULT
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--golden") from None
    target = Target(url, model, api_key_env)
    try:
        target.key()
        _ = target.root
    except Misconfigured as error:
        said = str(error).removeprefix("base_url: ")
        raise typer.BadParameter(said, param_hint="--url") from None
    subject = Subject(Unit("server", model=model), target)
    settings = ProberSettings(probes=make_probes(prompts))
    return _direct([subject], bands(Settings.model_construct()), settings, kinds, classes)


def _direct(
    subjects: Sequence[Subject],
    bands: Sequence[Any],
    settings: ProberSettings,
    kinds: list[str],
    classes: list[str],
) -> Plan:
    from extproc.probes.byhand import probe_by_hand
    from extproc.probes.matrix import Matrix
    from extproc.probes.results import Results

    matrix: Matrix = Matrix(subjects, bands, Results(), lambda unit, context: False)
    _check_classes(classes, set(matrix.bands))
    cells = {s.unit.id: matrix.cells(s.unit.id, classes, kinds) for s in subjects}

    def results() -> Iterator[dict[str, Any]]:
        with asyncio.Runner() as runner:
            for subject in subjects:
                found = probe_by_hand(subject, cells[subject.unit.id], matrix, settings)
                while True:
                    try:
                        result = runner.run(anext(found))
                    except StopAsyncIteration:
                        break
                    yield {"unit": subject.unit.id, **result.shown()}

    planned = [(c.unit, c.context, c.kind) for each in cells.values() for c in each]
    return Plan(planned, results())


def _check_classes(classes: list[str], known: set[str]) -> None:
    unknown = [name for name in classes if name not in known]
    if unknown:
        raise typer.BadParameter(
            f"{unknown[0]!r}: one of {', '.join(sorted(known))}", param_hint="--class"
        )


# -- what is shown --------------------------------------------------------------------------------


def _show(plan: Plan, as_json: bool) -> set[str]:
    """Shows results as they come; the outcomes among them."""
    if as_json:
        outcomes = set()
        for result in plan.results:
            typer.echo(json.dumps(result))
            outcomes.add(result["outcome"])
        return outcomes
    from rich.live import Live

    console = terminal()
    done: list[dict[str, Any]] = []
    if not console.is_terminal:  # a log: each line when it is there
        for result in plan.results:
            done.append(result)
            typer.echo(_line(result))
        typer.echo(_sum(done))
        return {result["outcome"] for result in done}
    with Live(console=console, refresh_per_second=8) as live:
        live.update(_table(done, plan.cells))
        for result in plan.results:
            done.append(result)
            live.update(_table(done, plan.cells))
    console.print(_sum(done))
    return {result["outcome"] for result in done}


def _line(result: dict[str, Any]) -> str:
    what = f"{result['unit']} {result['class']} {result['kind']}"
    said = f"{result['outcome']:<8}{what:<32}{_tokens(result):>12}{result['seconds']:>8.1f} s"
    return f"{said}  {result['reason']}".rstrip()


def _table(done: list[dict[str, Any]], cells: list[tuple[str, str, str]]) -> Any:
    from rich.spinner import Spinner
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("unit", "class", "probe", "outcome", "tokens", "seconds", "why"):
        table.add_column(title, justify="right" if title in ("tokens", "seconds") else "left")
    for result in done:
        outcome = result["outcome"]
        table.add_row(
            Text(result["unit"]),
            Text(result["class"]),
            Text(result["kind"]),
            Text(outcome, style=STYLES.get(outcome, "")),
            _tokens(result),
            f"{result['seconds']:.1f}" if result["requests"] else "",
            Text(result["reason"]),
        )
    if len(done) < len(cells):
        unit, context, kind = cells[len(done)]
        place = f"{len(done) + 1} of {len(cells)}"
        table.add_row(unit, context, kind, Spinner("dots", text=place), "", "", "")
    return table


def _tokens(result: dict[str, Any]) -> str:
    prompt, completion = result["prompt_tokens"], result["completion_tokens"]
    if prompt < 0 and completion < 0:
        return ""
    return f"{max(0, prompt)}+{max(0, completion)}"


def _sum(done: list[dict[str, Any]]) -> str:
    counts = {name: sum(r["outcome"] == name for r in done) for name in STYLES}
    said = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
    charged = sum(bool(result["charged"]) for result in done)
    return f"{len(done)} probes: {said or 'none'}" + (
        f"; {charged} counted as corrupt verdicts" if charged else ""
    )
