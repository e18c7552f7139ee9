"""The authority's end of the links: takes the workers' records into the book, tells them states.

Stands where the ext_proc server of a single process stands: what it hears, it gives to the same
services.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Any

from extproc.health.evidence import Evidence, Subject
from extproc.processor import Services
from extproc.signals.merge import Merged, Part
from extproc.workers import frames
from extproc.workers.frames import Began, item_of
from extproc.workers.states import Row, state_rows

log = logging.getLogger(__name__)

KEEP_SECONDS = 1.0
"""How often clean traffic is made durable: as often as the book of a single process."""

LOOK_SECONDS = 0.2
"""How often states are looked at that changed without a record of it (a new class of a unit)."""

IDLE_AFTER = 200
"""Responses of others after which a worker without any is told of."""

SESSIONS = 1024
"""Workers, dead ones too, of which the last number is known."""

GONE = "gone"
"""The part of metrics that dead workers left."""


class Hub:
    """``start`` raises OSError when the socket cannot be had."""

    def __init__(self, path: str, services: Services) -> None:
        self._path = Path(path)
        self.where = "workers"
        self._services = services
        self._heard: OrderedDict[str, int] = OrderedDict()  # session -> last number in the book
        self._durable: dict[str, int] = {}
        self._sessions: dict[str, str] = {}  # worker -> its session of now
        self._links: dict[str, _Connection] = {}  # worker -> its connection of now
        self._parts: dict[str, Part] = {GONE: Part()}
        self._states: list[Row] = []
        self._idle: dict[str, str] = {}  # worker that has told of no response -> its address
        self._responses = 0
        self._news = asyncio.Event()
        self._changed = asyncio.Event()
        self._alone = asyncio.Event()  # no worker is connected
        self._alone.set()
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        services.sinks.append(self)
        services.metrics.exposed = Merged(services.metrics.registry, self._parts)
        services.components["workers"] = lambda: f"{len(self._links)} connected"

    @property
    def serving(self) -> bool:
        """Whether any worker takes streams."""
        return any(not link.draining for link in self._links.values())

    async def start(self) -> None:
        """Binds and serves."""
        self._path.unlink(missing_ok=True)  # of an authority that is dead: the supervisor knows
        self._server = await asyncio.start_unix_server(self._serve, self._path)
        self._path.chmod(0o600)
        self._states = state_rows(self._services.ledger)
        self._tasks = [
            asyncio.create_task(self._keep(), name="hub keeps"),
            asyncio.create_task(self._tell(), name="hub tells"),
        ]

    async def drain(self, seconds: float) -> None:
        """Ends, once the workers have told the last of it. A supervisor has ended them before; if
        it was killed, they drain at the same time, for so many seconds at most."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._alone.wait(), seconds)
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        for link in list(self._links.values()):
            link.writer.close()
        self._path.unlink(missing_ok=True)

    def renew(self) -> None:
        """Nothing here goes by settings."""

    def evidence(self, record: Evidence) -> None:
        """A sink: a change of state is told to workers at once."""
        if record.subject is Subject.STATE:
            self._changed.set()

    # -- kept with the book ---------------------------------------------------------------------

    def snapshot(self) -> dict[str, int]:
        """What of each session is in the book: to be kept in one transaction with it."""
        return dict(self._heard)

    def restore(self, kept: Any) -> None:
        """Takes back a snapshot. One that cannot be read is let go: records may count twice."""
        try:
            heard = OrderedDict((str(name), int(last)) for name, last in dict(kept or {}).items())
        except (TypeError, ValueError):
            log.error("what was heard of workers cannot be read; it is let go")
            return
        self._heard = heard
        self._durable = dict(heard)

    # -- one worker -----------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link: _Connection | None = None
        try:
            frame = await frames.read(reader)
            match frame:
                case ["hello", str(name), str(session), str(where)]:
                    link = self._greet(name, session, where, writer)
                case None:
                    return
                case _:
                    raise frames.BrokenLink("no greeting")
            while (frame := await frames.read(reader)) is not None:
                self._take(link, frame)
        except asyncio.CancelledError:
            pass
        except Exception:
            log.exception("a worker's link broke")
            self._services.metrics.errors.labels("link").inc()
        finally:
            writer.close()
            if link is not None:
                self._leave(link)

    def _greet(
        self, name: str, session: str, where: str, writer: asyncio.StreamWriter
    ) -> _Connection:
        before = self._links.pop(name, None)
        if before is not None:
            before.writer.close()
        if self._sessions.get(name) != session:  # a new process in the place of an old one
            self._parts[GONE].absorb(self._parts.pop(name, Part()))
        self._sessions[name] = session
        self._parts.setdefault(name, Part())
        link = self._links[name] = _Connection(name, session, writer)
        self._idle[name], self._responses = where, 0
        self._count()
        log.info("%s is there", name)
        link.write(["welcome", self._durable.get(session, 0)])
        link.write(["states", self._states])
        return link

    def _leave(self, link: _Connection) -> None:
        if self._links.get(link.name) is link:
            del self._links[link.name]
            self._parts[link.name].forget_gauges()
            self._count()
            log.info("%s is gone", link.name)

    def _count(self) -> None:
        self._services.metrics.processes.workers = len(self._links)
        if self._links:
            self._alone.clear()
        else:
            self._alone.set()

    def _take(self, link: _Connection, frame: frames.Frame) -> None:
        match frame:
            case ["records", int(first), list(rows)]:
                self._busy(link.name, len(rows))
                last = self._heard.get(link.session, 0)
                for number, row in enumerate(rows, first):
                    if number > last:
                        self._record(row)
                self._heard[link.session] = max(last, first + len(rows) - 1)
                self._heard.move_to_end(link.session)
                while len(self._heard) > SESSIONS:
                    self._durable.pop(self._heard.popitem(last=False)[0], None)
                self._news.set()
            case ["metrics", list(rows)]:
                self._parts[link.name].take(rows)
            case ["draining"]:
                link.draining = True
            case _:
                raise frames.BrokenLink(f"an unknown frame {frame[0]!r:.40}")

    def _busy(self, name: str, responses: int) -> None:
        """``name`` gets streams. One that gets none while others do is not in Envoy's cluster."""
        self._idle.pop(name, None)
        self._responses += responses
        if self._idle and self._responses >= IDLE_AFTER:
            log.warning(
                "no response has come by %s: does Envoy's cluster list all workers?",
                ", ".join(f"{name} on {where}" for name, where in self._idle.items()),
            )
            self._idle = {}

    def _record(self, row: Any) -> None:
        if not row:
            return  # its worker could not describe it, and has said so
        try:
            item = item_of(row)
            if isinstance(item, Began):
                self._services.began_well(item.request_id, item.unit)
            else:
                self._services.record(item.response, item.text)
        except Exception:
            log.exception("a response could not be recorded")
            self._services.metrics.errors.labels("record").inc()

    # -- all workers ----------------------------------------------------------------------------

    async def _keep(self) -> None:
        while True:
            await self._news.wait()
            await asyncio.sleep(KEEP_SECONDS)
            self._news.clear()
            heard = dict(self._heard)
            # A store that fails is told elsewhere; the book in memory goes on, and the workers'
            # queues must not wait for a disk.
            with suppress(Exception):
                await self._services.keep()
            self._durable.update(heard)
            for link in list(self._links.values()):
                last = heard.get(link.session, 0)
                if last > link.kept:
                    link.kept = last
                    link.write(["kept", last])

    async def _tell(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._changed.wait()
            self._changed.clear()
            try:
                states = state_rows(self._services.ledger)
            except Exception:
                log.exception("the states could not be read; workers keep what they have")
                self._services.metrics.errors.labels("link").inc()
                continue
            if states != self._states:
                self._states = states
                for link in list(self._links.values()):
                    link.write(["states", states])


class _Connection:
    """One worker that is connected."""

    def __init__(self, name: str, session: str, writer: asyncio.StreamWriter) -> None:
        self.name = name
        self.session = session
        self.writer = writer
        self.draining = False
        self.kept = 0

    def write(self, frame: frames.Frame) -> None:
        """Sends a frame. A worker that reads nothing is cut off: it will come back."""
        if self.writer.is_closing():
            return
        if self.writer.transport.get_write_buffer_size() > frames.MAX_FRAME:
            self.writer.transport.abort()
            return
        self.writer.write(frames.encode(frame))
