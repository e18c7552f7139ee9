"""``semantic-extproc render``: the mesh's side of a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from extproc.cli.common import load_or_exit

if TYPE_CHECKING:
    from extproc.config import Settings


def render(
    config: Path = typer.Option(
        ..., "--config", "-c", help="The sidecar's YAML file: its units, and `mesh`."
    ),
    target: Literal["standalone", "istio", "envoy-gateway"] = typer.Option(
        "standalone", "--target", "-t", help="Whom the configuration is for."
    ),
    mode: Literal["two-tier", "observe", "shadow"] | None = typer.Option(
        None, "--mode", "-m", help="Instead of mesh.mode."
    ),
    envoy_version: str = typer.Option(
        "", "--envoy-version", metavar="1.38", help="The oldest Envoy that must take it."
    ),
    output: Path | None = typer.Option(
        None, "--output", "-o", metavar="DIR", help="Write files there, not to standard output."
    ),
    check: bool = typer.Option(
        False, "--check", help="Write nothing; compare with the files in DIR."
    ),
) -> None:
    """Write the configuration of Envoy, Istio or Envoy Gateway from your units.

    standalone: a whole envoy.yaml. istio: EnvoyFilters that lead one of your routes through the
    sidecar and keep Istio's clusters. envoy-gateway: an EnvoyPatchPolicy and what it needs, or an
    EnvoyExtensionPolicy in observe mode.

    observe: the sidecar gets copies; nothing is held or retried. two-tier: corrupt answers are
    retried on the next unit of `fallback`. shadow: two-tier, and copies to a candidate.
    docs/mesh.md says which to begin with.

    Exit codes: 0 done, 1 --check found a difference, 2 the settings do not suffice (every problem
    is listed with its line), or the folder cannot be written.
    """
    if check and output is None:
        typer.echo("semantic-extproc render: --check compares with files: add -o DIR", err=True)
        raise typer.Exit(2)
    settings = load_or_exit(config)
    if mode is not None:
        settings = _in_mode(settings, mode)
    files = _rendered(settings, config, target, envoy_version)
    if output is None:
        typer.echo("---\n".join(files.values()), nl=False)
    elif check:
        raise typer.Exit(1 if _differ(output, files) else 0)
    else:
        try:
            output.mkdir(parents=True, exist_ok=True)
            for name, text in files.items():
                (output / name).write_text(text, encoding="utf-8")
                typer.echo(f"wrote {output / name}", err=True)
        except OSError as error:
            place = error.filename or output
            typer.echo(f"semantic-extproc render: {place}: {error.strerror}", err=True)
            raise typer.Exit(2) from None


def _in_mode(settings: Settings, mode: str) -> Settings:
    # The environment has had its say; what counts now is the word on the command line.
    mesh = settings.mesh.model_copy(update={"mode": mode})
    return settings.model_copy(update={"mesh": mesh})


def _rendered(settings: Settings, config: Path, target: str, version: str) -> dict[str, str]:
    from extproc.config import place
    from extproc.mesh.render import RenderError, Target, Version, render

    try:
        wanted = Version.parse(version) if version else Version()
    except ValueError as error:
        typer.echo(f"semantic-extproc render: --envoy-version: {error}", err=True)
        raise typer.Exit(2) from None
    try:
        result = render(settings, Target(target), wanted)
    except RenderError as error:
        for setting, what in error.problems:
            typer.echo(f"{place(config, setting)}: {setting}: {what}", err=True)
        raise typer.Exit(2) from None
    for warning in result.warnings:
        typer.echo(f"warning: {warning}", err=True)
    return result.files


def _differ(folder: Path, files: dict[str, str]) -> bool:
    """Whether a file is not what it would be; says how."""
    from difflib import unified_diff

    found = False
    for name, text in files.items():
        path = folder / name
        try:
            there = path.read_text(encoding="utf-8")
        except OSError as error:
            typer.echo(f"{path}: {error.strerror}", err=True)
            found = True
            continue
        if there != text:
            found = True
            lines = unified_diff(
                there.splitlines(True), text.splitlines(True), str(path), f"{path} (rendered)"
            )
            typer.echo("".join(lines), nl=False)
    return found
