"""``/api/events``: what is known of all units, as server-sent events, while it changes.

Every event is the whole picture, so a client that is slow misses some and is behind in none: for
each there is at most one event on its way. A client that does not take it in time is dropped.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from aiohttp import web

log = logging.getLogger(__name__)

MOST = 32
"""Clients at a time; one more gets 503."""

EVERY = 1.0
"""Seconds between two looks."""

SHARE = 0.02
"""Of the event loop's time that looking may take: it is the loop that reads responses."""

PATIENCE = 5.0
"""Seconds that a client may take for one event."""

SILENCE = 15.0
"""Seconds after which a comment is sent: proxies close what is silent."""

HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # nginx would hold events back
    "X-Content-Type-Options": "nosniff",
}

END = b"event: end\ndata: {}\n\n"


class Feed:
    """Sends what ``look`` returns whenever it differs from what was sent last."""

    def __init__(self, look: Callable[[], dict[str, Any]]) -> None:
        self._look = look
        self._clients = 0
        self._closed = False
        self._event = b""
        self._not_before = 0.0
        self.version = 0
        """Grows with each event."""

        self._news = asyncio.Event()

    @property
    def clients(self) -> int:
        """How many are connected."""
        return self._clients

    def look(self) -> None:
        """Looks, if somebody is connected and the last look is long enough ago for what it took.
        To be called every ``EVERY`` seconds."""
        clock = asyncio.get_running_loop().time
        started = clock()
        if not self._clients or self._closed or started < self._not_before:
            return
        data = json.dumps(self._look(), separators=(",", ":"))
        event = f"event: units\ndata: {data}\n\n".encode()
        if event != self._event:
            self._event = event
            self.version += 1
            self._wake()
        self._not_before = started + (clock() - started) / SHARE

    def close(self) -> None:
        """Ends every connection with an event that says so, and takes no more."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One client."""
        if self._closed:
            raise web.HTTPServiceUnavailable(text="the sidecar is stopping\n")
        if self._clients >= MOST:
            raise web.HTTPServiceUnavailable(
                text=f"{MOST} clients listen already\n", headers={"Retry-After": "10"}
            )
        self._clients += 1
        response = web.StreamResponse(headers=HEADERS)
        try:
            await response.prepare(request)
            if not self._event or self._clients == 1:
                self.look()
            await self._serve(request, response)
        except (TimeoutError, ConnectionError):
            if request.transport is not None:  # it may hold what the client never took
                request.transport.abort()
        finally:
            self._clients -= 1
        return response

    async def _serve(self, request: web.Request, response: web.StreamResponse) -> None:
        clock = asyncio.get_running_loop().time
        seen, spoken = -1, clock()
        while not self._closed:
            if seen != self.version:
                seen, spoken = self.version, clock()
                await self._write(response, self._event)
                continue
            news = self._news
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(news.wait(), EVERY)
            if request.transport is None or request.transport.is_closing():
                return
            if clock() - spoken >= SILENCE:
                spoken = clock()
                await self._write(response, b": still here\n\n")
        await self._write(response, END)

    async def _write(self, response: web.StreamResponse, data: bytes) -> None:
        await asyncio.wait_for(response.write(data), PATIENCE)
