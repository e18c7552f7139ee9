"""A worker's end of the link to the authority.

Rules:
- Nothing here is awaited by a stream: a record is put into a queue, and sent with others shortly.
- A record stays in the queue until the authority has made it durable. After a new connection the
  authority says what it has; the rest is sent again. So neither the death of the authority nor
  that of the connection loses a record, and none counts twice.
- Without an authority the worker goes on by the states it was told last. The queue is bounded:
  when it is full, the oldest record goes, and is counted.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from contextlib import suppress
from itertools import islice

from extproc.signals import Metrics
from extproc.signals.merge import rows
from extproc.workers import frames
from extproc.workers.frames import Item, item_row
from extproc.workers.states import States

log = logging.getLogger(__name__)

CAPACITY = 20_000
"""Records, about 1 KiB each with their findings."""

BATCH_SECONDS = 0.01
"""How long a record waits for others."""

AT_ONCE = 500
METRICS_SECONDS = 1.0
PATIENCE_SECONDS = 3.0
"""An authority that is not there for so long is told of: it starts with the workers."""

RETRY_SECONDS = (0.05, 1.0)
"""Pauses between attempts to connect: the first, and the longest."""


class Link:
    """Tells the authority at ``path`` what worker ``name`` on address ``where`` has seen."""

    def __init__(
        self, path: str, name: str, metrics: Metrics, where: str = "", capacity: int = CAPACITY
    ) -> None:
        self.states = States()
        self.told = asyncio.Event()
        """Set once the states are known."""

        self._path = path
        self._name = name
        self._where = where
        self._metrics = metrics
        self._capacity = capacity
        self._session = os.urandom(8).hex()
        self._queue: deque[Item] = deque()
        self._first = 1  # number of the queue's first record
        self._next = 1  # number of the first record that this connection has not sent
        self._kept = asyncio.Event()
        self._kept.set()
        self._wake = asyncio.Event()
        self._draining = False
        self._writer: asyncio.StreamWriter | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begins to connect."""
        self._tasks = [
            asyncio.create_task(self._stay_connected(), name="link"),
            asyncio.create_task(self._tell_metrics(), name="link metrics"),
        ]

    async def stop(self, within: float = 5.0) -> None:
        """Waits, not for ever, until all is with the authority, and ends."""
        self._send_metrics()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._kept.wait(), within)
        if self._queue:
            log.error("%d records could not be told to the authority", len(self._queue))
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task

    def draining(self) -> None:
        """Tells that no new streams are taken."""
        self._draining = True
        self._write(["draining"])

    def send(self, item: Item) -> None:
        """Takes an item; it is sent soon."""
        queue = self._queue
        if len(queue) >= self._capacity:
            queue.popleft()
            if self._first >= self._next:  # else the authority has it, only not yet durably
                self._metrics.link_dropped.inc()
                self._next = self._first + 1
            self._first += 1
        queue.append(item)
        self._kept.clear()
        self._wake.set()

    async def _stay_connected(self) -> None:
        pause, longest = RETRY_SECONDS
        lost = False
        clock = asyncio.get_running_loop().time
        since = clock()
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(self._path)
            except OSError as error:
                if not lost and clock() - since > PATIENCE_SECONDS:
                    log.warning("the authority is not there (%s): going on without", error.strerror)
                    lost = True
                await asyncio.sleep(pause)
                pause = min(2 * pause, longest)
                continue
            if lost:
                log.info("the authority is there again")
            pause = RETRY_SECONDS[0]
            try:
                await self._serve(reader, writer)
            except Exception:
                log.exception("the link broke")
                self._metrics.errors.labels("link").inc()
            finally:
                self._writer = None
                writer.close()
            log.warning("the authority is gone: going on by its last word")
            lost, since = True, clock()
            await asyncio.sleep(pause)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until it ends."""
        writer.write(frames.encode(["hello", self._name, self._session, self._where]))
        sending: asyncio.Task[None] | None = None
        try:
            while (frame := await frames.read(reader)) is not None:
                match frame:
                    case ["welcome", int(last)]:
                        self._forget(last)
                        self._next = self._first
                        self._writer = writer
                        if self._draining:
                            self._write(["draining"])
                        self._send_metrics()
                        self._wake.set()
                        sending = asyncio.create_task(self._send_all(writer))
                        sending.add_done_callback(lambda _: writer.close())
                    case ["kept", int(last)]:
                        self._forget(last)
                    case ["states", list(rows)]:
                        self.states.take(rows)
                        self.told.set()
                    case _:
                        raise frames.BrokenLink(f"an unknown frame {frame[0]!r:.40}")
        except ConnectionError:
            pass
        finally:
            if sending is not None:
                sending.cancel()

    def _forget(self, last: int) -> None:
        """The authority has everything up to number ``last``."""
        queue = self._queue
        while queue and self._first <= last:
            queue.popleft()
            self._first += 1
        self._next = max(self._next, self._first)
        if not queue:
            self._kept.set()

    async def _send_all(self, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while True:
                await self._wake.wait()
                await asyncio.sleep(BATCH_SECONDS)
                self._wake.clear()
                while self._next < self._first + len(self._queue):
                    start = self._next - self._first
                    items = islice(self._queue, start, start + AT_ONCE)
                    batch = [self._row(item) for item in items]
                    writer.write(frames.encode(["records", self._next, batch]))
                    self._next += len(batch)
                    await writer.drain()

    def _row(self, item: Item) -> frames.Frame:
        try:
            return item_row(item)
        except Exception:
            log.exception("a response could not be recorded")
            self._metrics.errors.labels("record").inc()
            return []  # keeps its number

    async def _tell_metrics(self) -> None:
        while True:
            await asyncio.sleep(METRICS_SECONDS)
            self._send_metrics()

    def _send_metrics(self) -> None:
        self._metrics.link_queue.set(len(self._queue))
        self._write(["metrics", rows(self._metrics.registry)])

    def _write(self, frame: frames.Frame) -> None:
        # What is small and new each time need not wait: a connection that is stuck is soon closed.
        if self._writer is not None and not self._writer.is_closing():
            transport = self._writer.transport
            if transport.get_write_buffer_size() < frames.MAX_FRAME:
                transport.write(frames.encode(frame))
