"""Puts the rooms together: settings in, a running sidecar out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from extproc import logs
from extproc.admin import AdminServer, make_app
from extproc.admin.guard import is_loopback
from extproc.admin.probes import probe_routes
from extproc.admin.server import RenewedContext
from extproc.assembly import (
    SWEEP_SECONDS,
    grpc_settings,
    make_services,
    reconfigure,
    settled,
    sweep,
)
from extproc.config import Settings
from extproc.detect import prepare
from extproc.outlets import Outlets
from extproc.persistence import Persistence
from extproc.probing import bands, make_prober, subjects
from extproc.processor import Server, Services
from extproc.pulse import Watchdog
from extproc.reload import Reload
from extproc.running import serve
from extproc.signals.secret import secret
from extproc.tls import Certificates

__all__ = ["Sidecar", "alone", "make_services"]

log = logging.getLogger(__name__)

TICK = 1.0
"""Seconds between two looks at what time alone settles."""


class Edge(Protocol):
    """Where judged responses come from: the ext_proc server, or the workers that run one each."""

    where: str
    """Its address, for people."""

    @property
    def serving(self) -> bool:
        """Whether it takes streams."""

    async def start(self) -> None:
        """Binds and serves. Raises OSError."""

    async def drain(self, seconds: float) -> None:
        """Takes no new streams, and gives open ones ``seconds`` to end."""

    def renew(self) -> None:
        """New streams go by what the services say now."""


class Sidecar:
    """One running sidecar. ``start`` raises OSError when an address cannot be had, StoreError
    when the store cannot.

    ``edge``: who reads answers, given the services; the ext_proc server of this very process by
    default. What it has to keep with the book, it may hand to the persistence.
    """

    def __init__(
        self, settings: Settings, edge: Callable[[Services, Persistence], Edge] | None = None
    ) -> None:
        self._drain_seconds = settings.grpc.drain_seconds
        self._serving = False
        self._ticking: asyncio.Task[None] | None = None
        self._reconfiguring: asyncio.Future[None] | None = None
        self.services = make_services(settings)
        self._persistence = Persistence(settings, self.services)
        self._outlets = Outlets(settings, self.services)
        self._prober = make_prober(settings, self.services)
        self.services.probe_summary = self._prober.view.summary
        self._persistence.parts["probes"] = self._prober
        self._edge: Edge
        if edge is None:
            self._edge = Server(grpc_settings(settings, settings.grpc.address), self.services)
        else:
            self._edge = edge(self.services, self._persistence)
        admin = settings.admin
        app = make_app(
            self.services,
            lambda: self._serving and self._edge.serving,
            is_loopback(admin.address),
            secret(admin.token_env, admin.token_file),
            self._persistence,
        )
        app.add_routes(probe_routes(self._prober))
        context, tls = None, admin.tls
        if tls is not None:
            told = self.services.metrics.certificate("admin")
            context = RenewedContext(Certificates(tls.files, "admin.tls", told))
        self._admin = AdminServer(app, admin.address, context)
        self._admin_address = admin.address

    def reconfigure(self, settings: Settings) -> None:
        """Goes by other settings: new streams at once, open ones by what they began with."""
        reconfigure(self.services, settings)
        self._persistence.redefine()
        self._edge.renew()
        # As soon as the probe that runs has ended.
        self._reconfiguring = asyncio.ensure_future(
            self._prober.reconfigure(subjects(settings), bands(settings))
        )

    async def start(self) -> None:
        """Serves on both addresses."""
        prepare()
        await self._persistence.start()  # nobody is to be told of states before the kept ones
        try:
            await self._admin.start()
            await self._outlets.start()
            await self._edge.start()
            await self._prober.start()
        except BaseException:
            await self._outlets.stop()
            await self._admin.stop()
            await self._persistence.stop()
            raise
        self._ticking = asyncio.create_task(self._tick(), name="tick")
        self._serving = True
        settled()
        log.info("serving %s, admin on %s", self._edge.where, self._admin_address)

    async def drain(self) -> None:
        """Takes no new streams, lets open ones end, then stops.

        The admin server answers until the last: Envoy's health checks must not fail meanwhile.
        """
        self._serving = False
        log.info("draining: open streams get %g s", self._drain_seconds)
        try:
            await self._prober.stop()
            await self._edge.drain(self._drain_seconds)
            await self._persistence.settle()  # what waits for the fleet is told to people first
            await self._outlets.stop()
        finally:  # also when a second signal cuts the drain short
            if self._ticking is not None:
                self._ticking.cancel()
            await self._persistence.stop()
        await self._admin.stop()
        log.info("stopped")

    async def _tick(self) -> None:
        now = asyncio.get_running_loop().time
        swept = now()
        while True:
            due = now() + TICK
            await asyncio.sleep(TICK)
            self.services.metrics.loop_lag.observe(max(0.0, now() - due))
            if now() - swept >= SWEEP_SECONDS:
                swept = now()
                sweep()
            try:
                self.services.tick()
            except Exception:
                log.exception("the book could not be settled")
                self.services.metrics.errors.labels("tick").inc()


async def alone(path: Path | None, settings: Settings) -> None:
    """A whole sidecar in this process, until a signal ends it. SIGHUP reads ``path`` again."""
    sidecar = Sidecar(settings)
    metrics = sidecar.services.metrics

    def taken(later: Settings, _: str) -> None:
        sidecar.reconfigure(later)
        logs.configure(later.log.level, later.log.format)

    reload = Reload(path, settings, taken, metrics.processes)
    watchdog = Watchdog(metrics.stalls.inc)
    watching = asyncio.create_task(reload.watch()) if settings.server.watch else None

    def ready() -> None:
        metrics.processes.workers = 1
        watchdog.start()

    try:
        await serve(sidecar, ready=ready, hangup=reload)
    finally:
        watchdog.stop()
        if watching is not None:
            watching.cancel()
