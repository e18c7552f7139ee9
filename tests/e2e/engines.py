"""Real llama.cpp servers with a real model, one a flavour: healthy, and with faults of weights."""

from __future__ import annotations

import asyncio
import sys
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path

from extproc.demo import gguf
from extproc.demo.llamacpp import find_model
from extproc.demo.ports import free_ports
from extproc.demo.processes import Processes, wait_ready

CONTEXT = 1024
"""Tokens of a slot."""

FAULTS: dict[str, tuple[Callable[[gguf.Gguf], object], ...]] = {
    "nan": (gguf.token_zero, partial(gguf.nan_weight, tensor="blk.15.attn_norm.weight")),
    "scaled": (partial(gguf.scaled, tensor="blk.12.ffn_down.weight", factor=40),),
    # Its values leave the range of the 16-bit floats in which the cache holds them.
    "f16_overflow": (partial(gguf.scaled, tensor="blk.3.attn_v.weight", factor=8192),),
}
"""Of each flavour but "healthy": what is done to the weights."""


def model_of(flavour: str, folder: Path) -> Path:
    """The model file of a flavour; a corrupt copy is written to ``folder``."""
    source = find_model()
    if flavour == "healthy":
        return source
    copy = folder / f"{flavour}.gguf"
    if not copy.exists():
        gguf.edited_copy(source, copy, *FAULTS[flavour])  # type: ignore[arg-type]
    return copy


class Engines:
    """Starts a server of a flavour when it is first asked for."""

    def __init__(self, folder: Path, processes: Processes) -> None:
        self._folder = folder
        self._processes = processes
        self._urls: dict[str, str] = {}

    def url(self, flavour: str) -> str:
        """The base URL of a flavour's server, which is ready."""
        if flavour not in self._urls:
            (port,) = free_ports(1)
            self.serve(flavour, port, flavour)
            self._urls[flavour] = f"http://127.0.0.1:{port}"
        return self._urls[flavour]

    def serve(self, flavour: str, port: int, name: str) -> None:
        """Starts a server, and returns when it is ready."""
        model = str(model_of(flavour, self._folder))
        command = [sys.executable, "-m", "extproc.demo.llamacpp", model, str(port), name]
        command += ["--slots", "1", "--context", str(CONTEXT), "--batch", "512", "--embeddings"]
        process = self._processes.start(name, command)

        async def ready() -> bool:
            return await asyncio.to_thread(answers, f"http://127.0.0.1:{port}/health")

        asyncio.run(wait_ready(process, ready, 100))


def answers(url: str) -> bool:
    """Whether 200 comes from there."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False
