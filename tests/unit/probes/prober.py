"""A prober in a hurry, of one unit and two classes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from extproc.probes.matrix import bands
from extproc.probes.prober import Prober
from extproc.probes.settings import ProberSettings
from extproc.units import Unit

QUICK = ProberSettings(interval=0.05, first_pause=0.05, longest_pause=0.1, long_tokens=1000)
BANDS = bands([("short", 16384)], "long")
UNIT = Unit("u", model="m", engine="vllm", release="r1")


@asynccontextmanager
async def running(prober: Prober) -> AsyncIterator[None]:
    """The prober, at work."""
    await prober.start()
    try:
        yield
    finally:
        await prober.stop()
