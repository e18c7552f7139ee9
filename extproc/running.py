"""The life of a process that serves: started, told to end, drained."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Protocol


class Service(Protocol):
    """What is served."""

    async def start(self) -> None:
        """Begins to serve."""

    async def drain(self) -> None:
        """Ends, with patience for what is open."""


async def serve(
    service: Service,
    stop: asyncio.Event | None = None,
    ready: Callable[[], None] = lambda: None,
    ends: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGINT),
    hangup: Callable[[], None] | None = None,
) -> None:
    """Serves until ``stop`` is set or one of the signals ``ends`` comes; a second one ends the
    drain. ``ready`` is called once it serves, ``hangup`` at each SIGHUP."""
    loop = asyncio.get_running_loop()
    told = stop or asyncio.Event()
    main = asyncio.current_task()

    def on_signal() -> None:
        if told.is_set() and main is not None:
            main.cancel()
        told.set()

    for number in ends:
        loop.add_signal_handler(number, on_signal)
    if hangup is not None:
        loop.add_signal_handler(signal.SIGHUP, hangup)
    await service.start()
    ready()
    await told.wait()
    await service.drain()
