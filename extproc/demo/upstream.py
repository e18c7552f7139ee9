"""The two kinds of inference servers that the demo can start."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from extproc.demo import gguf, llamacpp
from extproc.demo.load import WORKERS
from extproc.demo.topology import Build


class Upstream(StrEnum):
    """``llamacpp``: llama.cpp with a real model. ``recorded``: replays what that once answered."""

    LLAMACPP = "llamacpp"
    RECORDED = "recorded"


Command = Callable[[Build], list[str]]
"""The command line that serves a build."""


def prepare(upstream: Upstream, folder: Path) -> Command:
    """Makes what ``upstream`` needs, in ``folder``. Raises ``Missing``."""
    if upstream is Upstream.RECORDED:
        return _recorded
    model, corrupt = llamacpp.find_model(), folder / "corrupt.gguf"
    gguf.corrupt_copy(model, corrupt)

    def command(build: Build) -> list[str]:
        path = corrupt if build.corrupt else model
        arguments = [str(path), str(build.port), build.alias, "--slots", str(WORKERS)]
        return [sys.executable, "-m", "extproc.demo.llamacpp", *arguments]

    return command


def _recorded(build: Build) -> list[str]:
    kind = "corrupt" if build.corrupt else "healthy"
    arguments = [kind, str(build.port), build.alias]
    return [sys.executable, "-m", "extproc.demo.recorded", *arguments]
