"""Secrets of ours: named by the configuration, never in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


class SecretFile:
    """The secret in a file, also after the file was replaced; while it cannot be read, the last
    one. Raises OSError when it cannot be read at first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last = path.read_bytes().strip()

    def __call__(self) -> bytes:
        """The secret now."""
        with suppress(OSError):
            self._last = self._path.read_bytes().strip() or self._last
        return self._last


def secret(variable: str, file: Path | None) -> Callable[[], bytes] | None:
    """The secret that an environment variable or a file holds, None when neither is named.

    Raises KeyError for a variable that is not set, OSError for a file that cannot be read.
    """
    if file is not None:
        return SecretFile(file)
    if variable:
        value = os.environ[variable].encode()
        return lambda: value
    return None
