"""One worker: an ext_proc server that tells the authority what it sees."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from extproc.assembly import (
    SWEEP_SECONDS,
    grpc_settings,
    make_registry,
    policy,
    reconfigure,
    settled,
    sweep,
)
from extproc.config import Settings
from extproc.config.server import worker_address
from extproc.detect import prepare
from extproc.health import Ledger
from extproc.processor import Server
from extproc.signals import Metrics
from extproc.workers.link import Link
from extproc.workers.services import WorkerServices

log = logging.getLogger(__name__)

WELCOME_SECONDS = 5.0
"""How long a worker waits for the states before it serves without: inspecting with old states, or
none, is better than not at all."""


class Worker:
    """``start`` raises OSError when the address cannot be had."""

    def __init__(self, settings: Settings, index: int, name: str, link: str, salt: bytes) -> None:
        metrics = Metrics()
        address = worker_address(settings.grpc.address, index)
        self._link = Link(link, name, metrics, address)
        self.services = WorkerServices(
            registry=make_registry(settings),
            ledger=Ledger(),
            metrics=metrics,
            link=self._link,
            salt=salt,
            quotes=settings.samples.keep != "nothing",
            **policy(settings),
        )
        self._lagging: asyncio.Task[None] | None = None
        self._drain_seconds = settings.grpc.drain_seconds
        self._server = Server(grpc_settings(settings, address), self.services)

    def reconfigure(self, settings: Settings) -> None:
        """Goes by other settings: new streams at once, open ones by what they began with."""
        reconfigure(self.services, settings)
        self._server.renew()

    async def start(self) -> None:
        """Serves, once the states are known."""
        prepare()
        self._link.start()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._link.told.wait(), WELCOME_SECONDS)
        if not self._link.told.is_set():
            log.warning("nothing is known of any unit: serving all the same")
        await self._server.start()
        self._lagging = asyncio.create_task(self._lag(), name="lag")
        settled()
        log.info("serving %s", self._server.where)

    async def _lag(self) -> None:
        now = asyncio.get_running_loop().time
        swept = now()
        while True:
            due = now() + 1.0
            await asyncio.sleep(1.0)
            self.services.metrics.loop_lag.observe(max(0.0, now() - due))
            if now() - swept >= SWEEP_SECONDS:
                swept = now()
                sweep()

    async def drain(self) -> None:
        """Takes no new streams, lets open ones end, tells the last of it, then stops."""
        log.info("draining: open streams get %g s", self._drain_seconds)
        self._link.draining()
        try:
            await self._server.drain(self._drain_seconds)
        finally:
            if self._lagging is not None:
                self._lagging.cancel()
            await self._link.stop()
        log.info("stopped")
