"""``semantic-extproc config``: check a configuration, or list every setting."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from extproc.cli.common import load_or_exit


def config(
    path: Path | None = typer.Argument(None, metavar="[FILE]", help="The YAML file to check."),
    named: Path | None = typer.Option(
        None, "--config", "-c", metavar="FILE", help="The same, as other commands take it."
    ),
    schema: bool = typer.Option(False, "--schema", help="Print the JSON schema of all settings."),
) -> None:
    """Check a configuration and print what it comes to, environment included.

    Exit codes: 0 usable, 2 not usable (every problem is listed with its line).
    """
    if schema:
        from extproc.config import Settings

        typer.echo(json.dumps(Settings.model_json_schema(), indent=2))
        return
    import yaml

    if path is not None and named is not None:
        raise typer.BadParameter("one file is checked at a time", param_hint="--config")
    settings = load_or_exit(path or named)
    typer.echo(yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False).rstrip())
