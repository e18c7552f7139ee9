"""``semantic-extproc audit``: does an Envoy configuration find, and leave, a bad unit?"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from extproc.cli.admin import Api, Refused, Unreachable
from extproc.cli.common import load_or_exit
from extproc.cli.inspect import terminal

if TYPE_CHECKING:
    from extproc.mesh.audit import Report


def audit(
    sources: list[str] = typer.Argument(
        None,
        metavar="FILE|URL...",
        help="An Envoy bootstrap or saved /config_dump (YAML or JSON), manifests (EnvoyFilter, "
        "EnvoyPatchPolicy, EnvoyExtensionPolicy), - for standard input, or the admin address of a "
        "running Envoy (http://127.0.0.1:9901). Several files are read as one configuration.",
    ),
    config: Path | None = typer.Option(
        None, "--config", "-c", help="The sidecar's extproc.yaml: whether both sides agree."
    ),
    sidecar: str = typer.Option(
        "", "--sidecar", metavar="URL", help="The running sidecar's admin address: what was tried."
    ),
    sidecar_cluster: str = typer.Option(
        "",
        "--sidecar-cluster",
        metavar="NAME",
        help="Envoy's cluster of the sidecar, where its filter cannot be told from other ext_proc.",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON (docs/audit.md has its shape)."),
    strict: bool = typer.Option(False, "--strict", help="Warnings fail, too."),
    catalogue: bool = typer.Option(False, "--list", help="List all checks and exit."),
    markdown: bool = typer.Option(
        False, "--markdown", help="With --list: as the tables of docs/audit.md."
    ),
) -> None:
    """Audit an Envoy configuration, and a running Envoy.

    Answers three questions: was everything in production tried; can the gateway tell "alive" from
    "degenerate"; does a retry reach a different configuration. Then lists what silently breaks
    this, each with the place, the reason and the lines to put there.

    Exit codes: 0 no error (with --strict: no warning either), 1 some, 2 unusable input.
    """
    from extproc.mesh.audit import Unusable

    if catalogue:
        _list(as_json, markdown)
        return
    if not sources:
        raise typer.BadParameter("name a file, - or a URL; --list shows the checks")
    settings = load_or_exit(config) if config is not None else None
    try:
        report = _report(sources, config, settings, sidecar, sidecar_cluster)
    except Unusable as error:
        typer.echo(f"semantic-extproc: {error}", err=True)
        raise typer.Exit(2) from None
    _print(report, as_json)
    raise typer.Exit(1 if report.failed(strict) else 0)


def _report(
    sources: list[str],
    config: Path | None,
    settings: Any,
    sidecar: str,
    sidecar_cluster: str,
) -> Report:
    from extproc.mesh.audit import Places, Unusable, audit, parse
    from extproc.mesh.audit.live import fetch, is_url

    places = Places((str(config), _read(str(config))) if config is not None else None)

    told = _ask(sidecar) if sidecar else None
    live, runtime, documents = None, None, []
    for source in sources:
        if is_url(source):
            if len(sources) > 1:
                raise Unusable(f"{source}: a running Envoy is audited alone")
            dump, live, runtime = fetch(source)
            documents.append(dump)
        else:
            text = _read(source)
            found = parse(text, source)
            places.add(source, text, len(found))
            documents += found
    return audit(
        documents,
        ", ".join(sources),
        settings=settings,
        live=live,
        runtime=runtime,
        sidecar=told,
        sidecar_cluster=sidecar_cluster,
        places=places,
    )


def _ask(url: str) -> dict[str, Any]:
    """What a running sidecar tells of its units, with the results of their probes."""
    from extproc.mesh.audit import Unusable

    api = Api(url)
    try:
        units = api.get("/api/units")["units"]
        for unit in units:
            if unit.get("probes") is not None:
                unit["probed"] = api.get(api.unit(unit["id"], "probes"))
    except (Unreachable, Refused) as problem:
        raise Unusable(str(problem)) from None
    except (LookupError, TypeError, AttributeError):
        raise Unusable(f"{url}/api/units: no units; is that the sidecar's address?") from None
    return {"units": units}


def _read(source: str) -> str:
    from extproc.mesh.audit import Unusable

    try:
        if source == "-":
            return sys.stdin.buffer.read().decode()
        return Path(source).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise Unusable(f"{source}: is no UTF-8 text") from None
    except OSError as error:
        raise Unusable(f"{source}: {error.strerror or error}") from None


def _print(report: Report, as_json: bool) -> None:
    from extproc.mesh.audit.report import as_json as shape
    from extproc.mesh.audit.report import lines

    if as_json:
        typer.echo(json.dumps(shape(report), indent=2))
        return
    console = terminal()
    for line in lines(report):
        console.print(line, soft_wrap=not console.is_terminal)


def _list(as_json: bool, markdown: bool) -> None:
    from extproc.mesh.audit import CATALOGUE, as_markdown

    if markdown:
        typer.echo(as_markdown().rstrip())
        return
    if as_json:
        rows = [
            {
                "id": check.id,
                "severity": str(check.severity),
                "theme": check.theme,
                "title": check.title,
                "why": check.why,
                "fix": check.fix,
            }
            for check in CATALOGUE
        ]
        typer.echo(json.dumps(rows, indent=2))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("check", "severity", "what is wrong"):
        table.add_column(title, no_wrap=title != "what is wrong")
    theme = ""
    for check in CATALOGUE:
        if check.theme != theme:
            theme = check.theme
            table.add_row(Text(theme, style="bold underline"))
        table.add_row(Text(check.id), str(check.severity), Text(check.title))
    terminal().print(table)
