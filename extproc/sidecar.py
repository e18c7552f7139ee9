"""Puts the rooms together: settings in, a running sidecar out."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal

from extproc import __version__
from extproc.admin import AdminServer, make_app
from extproc.admin.guard import is_loopback
from extproc.admin.probes import probe_routes
from extproc.admin.server import tls_context
from extproc.config import Settings
from extproc.detect import Catalogue, make_catalogue, prepare
from extproc.health import HealthSettings, Ledger
from extproc.health.sampling import Sampler
from extproc.outlets import Outlets
from extproc.persistence import Persistence
from extproc.probing import make_prober
from extproc.processor import HoldPolicy, Server, ServerSettings, Services, Tls
from extproc.signals import Metrics
from extproc.signals.secret import secret
from extproc.units import ContextClasses, Registry
from extproc.wire import Limits, Router

log = logging.getLogger(__name__)

TICK = 1.0
"""Seconds between two looks at what time alone settles."""


def make_services(settings: Settings) -> Services:
    """What all streams share, as ``settings`` want it."""
    units = [unit.unit() for unit in settings.units]
    clusters = {cluster: unit.id for unit in settings.units for cluster in unit.clusters}
    ledger = Ledger(units, HealthSettings(**settings.health.model_dump()))
    registry = Registry(units, clusters)
    metrics = Metrics()
    metrics.watch(ledger, registry)
    metrics.build_info.labels(__version__).set(1)
    return Services(
        registry=registry,
        ledger=ledger,
        metrics=metrics,
        contexts=ContextClasses(
            [(entry.name, entry.up_to_bytes) for entry in settings.context_classes],
            settings.largest_class,
        ),
        router=Router(settings.paths),
        limits=Limits(
            settings.limits.body_bytes, settings.limits.message_bytes, settings.limits.expansion
        ),
        hold=HoldPolicy(**settings.hold.model_dump()),
        sampler=Sampler(
            settings.sampling.share,
            {unit.id: unit.sample for unit in settings.units if unit.sample is not None},
        ),
        client_attributes=tuple(settings.sampling.client_attributes),
        trusted_headers={
            what: name for what, name in settings.trusted_headers.model_dump().items() if name
        },
        terminate=settings.late_verdict == "terminate",
        catalogue=make_catalogue(settings.policy()),
        catalogues=catalogues(settings),
    )


def catalogues(settings: Settings) -> dict[str, Catalogue]:
    """Of the units that are judged otherwise than the rest."""
    policies = {unit.id: settings.policy_of(unit.id) for unit in settings.units}
    common = settings.policy()
    return {unit: make_catalogue(p) for unit, p in policies.items() if p != common}


class Sidecar:
    """One running sidecar. ``start`` raises OSError when an address cannot be had, StoreError
    when the store cannot."""

    def __init__(self, settings: Settings) -> None:
        grpc, tls = settings.grpc, settings.grpc.tls
        self._drain_seconds = grpc.drain_seconds
        self._serving = False
        self._ticking: asyncio.Task[None] | None = None
        self.services = make_services(settings)
        self._persistence = Persistence(settings, self.services)
        self._outlets = Outlets(settings, self.services)
        self._prober = make_prober(settings, self.services)
        self.services.probe_summary = self._prober.summary
        self._persistence.parts["probes"] = self._prober
        self._server = Server(
            ServerSettings(
                grpc.address,
                int(grpc.unix_mode, 8),
                Tls(tls.cert_file, tls.key_file, tls.client_ca_file) if tls else None,
                grpc.max_message_bytes,
                grpc.max_connection_age,
            ),
            self.services,
        )
        admin = settings.admin
        app = make_app(
            self.services,
            lambda: self._serving,
            is_loopback(admin.address),
            secret(admin.token_env, admin.token_file),
            self._persistence,
        )
        app.add_routes(probe_routes(self._prober))
        files = admin.tls
        self._admin = AdminServer(
            app,
            admin.address,
            tls_context(files.cert_file, files.key_file, files.client_ca_file) if files else None,
        )
        self._addresses = (grpc.address, settings.admin.address)

    async def start(self) -> None:
        """Serves on both addresses."""
        prepare()
        await self._persistence.start()  # nobody is to be told of states before the kept ones
        try:
            await self._admin.start()
            await self._outlets.start()
            await self._server.start()
            await self._prober.start()
        except BaseException:
            await self._outlets.stop()
            await self._admin.stop()
            await self._persistence.stop()
            raise
        self._ticking = asyncio.create_task(self._tick(), name="tick")
        self._serving = True
        # Everything made so far lives as long as the process: the collector need not walk it with
        # every few thousand events. Streams make no cycles that would pile up between rounds.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)
        log.info("serving ext_proc on %s, admin on %s", *self._addresses)

    async def drain(self) -> None:
        """Takes no new streams, lets open ones end, then stops.

        The admin server answers until the last: Envoy's health checks must not fail meanwhile.
        """
        self._serving = False
        log.info("draining: open streams get %g s", self._drain_seconds)
        try:
            await self._prober.stop()
            await self._server.drain(self._drain_seconds)
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
        while True:
            due = now() + TICK
            await asyncio.sleep(TICK)
            self.services.metrics.loop_lag.observe(max(0.0, now() - due))
            try:
                self.services.tick()
            except Exception:
                log.exception("the book could not be settled")
                self.services.metrics.errors.labels("tick").inc()

    async def run(self) -> None:
        """Serves until SIGTERM or SIGINT; a second one ends the drain."""
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        main = asyncio.current_task()

        def on_signal() -> None:
            if stop.is_set() and main is not None:
                main.cancel()
            stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, on_signal)
        await self.start()
        await stop.wait()
        await self.drain()
