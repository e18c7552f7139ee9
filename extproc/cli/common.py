"""What commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from extproc.config import Settings


def load_or_exit(path: Path | None) -> Settings:
    """The settings of ``path``; exits with 2 after saying everything that is wrong with them."""
    from extproc.config import ConfigError, load

    try:
        return load(path)
    except ConfigError as error:
        for problem in error.problems:
            typer.echo(problem, err=True)
        raise typer.Exit(2) from None
