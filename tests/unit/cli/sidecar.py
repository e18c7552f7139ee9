"""A real admin server in a thread of its own: commands talk to it as to a running sidecar."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web

from extproc.admin import AdminServer


@contextmanager
def served(make: Callable[[], web.Application]) -> Iterator[str]:
    """The URL of an application that is served while the block runs."""
    started = threading.Event()
    found: dict[str, Any] = {}

    async def serve() -> None:
        server = AdminServer(make(), "127.0.0.1:0")
        await server.start()
        found["port"], found["loop"] = server.port, asyncio.get_running_loop()
        found["stop"] = asyncio.Event()
        started.set()
        await found["stop"].wait()
        await server.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert started.wait(30)
        yield f"http://127.0.0.1:{found['port']}"
    finally:
        found["loop"].call_soon_threadsafe(found["stop"].set)
        thread.join()
