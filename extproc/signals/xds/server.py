"""The xDS server: EDS and RTDS, each as a service of its own and both as ADS, as the whole state
of the world or as what changed (delta).

Every Envoy has its own stream and session. A change of state wakes one task, which makes a new
snapshot; every stream then sends what changed for its Envoy. An Envoy that reads slowly gets the
latest snapshot when it is ready, not all in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import grpc
from envoy.service.discovery.v3 import ads_pb2_grpc
from envoy.service.endpoint.v3 import eds_pb2_grpc
from envoy.service.runtime.v3 import rtds_pb2_grpc

from extproc.health.evidence import Evidence, Subject
from extproc.signals.metrics import Metrics
from extproc.signals.xds.delta import DeltaSession
from extproc.signals.xds.session import Session
from extproc.signals.xds.sotw import SotwSession
from extproc.signals.xds.topology import Topology
from extproc.signals.xds.world import EDS, RTDS, Ask, Snapshot, World

log = logging.getLogger(__name__)

EOF: Any = grpc.aio.EOF  # type: ignore[attr-defined]

REFRESH = 1.0
"""Seconds between looks at the state without being told: a change that came from a shared store,
or a fallback that is no longer verified, brings no record here."""

_TYPES = {EDS: "eds", RTDS: "rtds"}


class XdsServer:
    """``ask``: what ``/unit-health`` answers. ``start`` raises OSError when it cannot listen."""

    def __init__(
        self,
        address: str,
        topology: Topology,
        ask: Ask,
        metrics: Metrics,
        credentials: grpc.ServerCredentials | None = None,
    ) -> None:
        self._address = address
        self._world = World(topology, ask)
        self._metrics = metrics
        self._credentials = credentials
        self._snapshot: Snapshot = {}
        self._wake = asyncio.Event()
        self._streams: set[asyncio.Event] = set()
        self._watching: asyncio.Task[None] | None = None
        self._server: grpc.aio.Server | None = None
        self.port = 0
        """The port that was bound."""

    def evidence(self, record: Evidence) -> None:
        """A sink: a change of state, or of who may take over, is told to Envoys at once."""
        if record.subject is not Subject.VERDICT:
            self._wake.set()

    async def start(self) -> None:
        """Binds and serves."""
        self._snapshot = self._world.snapshot()
        server = grpc.aio.server(
            options=[
                ("grpc.so_reuseport", 0),
                # An Envoy whose machine is gone says nothing: its stream must not stay for ever.
                ("grpc.keepalive_time_ms", 30_000),
                ("grpc.keepalive_timeout_ms", 10_000),
                ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
            ]
        )
        eds_pb2_grpc.add_EndpointDiscoveryServiceServicer_to_server(_Eds(self), server)
        rtds_pb2_grpc.add_RuntimeDiscoveryServiceServicer_to_server(_Rtds(self), server)
        ads_pb2_grpc.add_AggregatedDiscoveryServiceServicer_to_server(_Ads(self), server)
        address = "0.0.0.0" + self._address if self._address[0] == ":" else self._address
        try:
            if self._credentials is not None:
                self.port = server.add_secure_port(address, self._credentials)
            else:
                self.port = server.add_insecure_port(address)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {self._address}: {error}") from None
        await server.start()
        self._server = server
        self._watching = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """Ends all streams. Envoys keep what they were told last."""
        if self._watching is not None:
            self._watching.cancel()
        if self._server is not None:
            await self._server.stop(None)

    async def _watch(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(REFRESH):
                    await self._wake.wait()
            self._wake.clear()
            try:
                snapshot = self._world.snapshot()
            except Exception:
                log.exception("the state could not be read; Envoys keep what they have")
                self._metrics.errors.labels("xds").inc()
                continue
            if snapshot is not self._snapshot:
                self._snapshot = snapshot
                for changed in self._streams:
                    changed.set()

    async def serve(self, context: Any, only: str = "", delta: bool = False) -> None:
        """One stream, until its Envoy ends it. ``delta``: it wants what changed alone."""
        protocol: type[Session[Any]] = DeltaSession if delta else SotwSession
        session = protocol(only, self._refused, _unknown)
        changed, writing = asyncio.Event(), asyncio.Lock()
        pushing = asyncio.create_task(self._push(session, changed, writing, context))
        pushing.add_done_callback(_end_with(asyncio.current_task(), context))
        self._streams.add(changed)
        self._metrics.xds_streams.inc()
        try:
            while (request := await context.read()) is not EOF:
                async with writing:  # a stream has one writer at a time
                    response = session.request(request, self._snapshot)
                    if response is not None:
                        await self._write(context, response)
        finally:
            self._metrics.xds_streams.dec()
            self._streams.discard(changed)
            pushing.cancel()

    async def _push(
        self,
        session: Session[Any],
        changed: asyncio.Event,
        writing: asyncio.Lock,
        context: Any,
    ) -> None:
        while True:
            await changed.wait()
            changed.clear()
            async with writing:
                for response in session.changed(self._snapshot):
                    await self._write(context, response)

    async def _write(self, context: Any, response: Any) -> None:
        await context.write(response)
        self._metrics.xds_responses.labels(_TYPES[response.type_url]).inc()

    def _refused(self, kind: str, words: str) -> None:
        log.error("an Envoy refused %s: %s", _TYPES[kind], words[:500])
        self._metrics.xds_refusals.labels(_TYPES[kind]).inc()


def _unknown(kind: str, names: list[str]) -> None:
    # Envoy itself says nothing of it: the cluster is warmed up, for ever or until a time is over.
    shown = ", ".join(name[:128] for name in names[:10])
    log.warning("an Envoy asks for what xds does not list (%s): %s", _TYPES[kind], shown)


def _end_with(serving: asyncio.Task[Any] | None, context: Any) -> Callable[[Any], None]:
    """A stream that cannot be written to ends as a whole: Envoy then opens a new one."""

    def ended(pushing: asyncio.Task[None]) -> None:
        if pushing.cancelled() or pushing.exception() is None:
            return
        if not context.done():
            log.error("a stream to an Envoy failed: %s", type(pushing.exception()).__name__)
        if serving is not None:
            serving.cancel()

    return ended


# Method names below are those of the protocol.


class _Eds(eds_pb2_grpc.EndpointDiscoveryServiceServicer):  # type: ignore[misc]
    def __init__(self, server: XdsServer) -> None:
        self._server = server

    async def StreamEndpoints(self, _: object, context: Any) -> None:
        await self._server.serve(context, EDS)

    async def DeltaEndpoints(self, _: object, context: Any) -> None:
        await self._server.serve(context, EDS, delta=True)


class _Rtds(rtds_pb2_grpc.RuntimeDiscoveryServiceServicer):  # type: ignore[misc]
    def __init__(self, server: XdsServer) -> None:
        self._server = server

    async def StreamRuntime(self, _: object, context: Any) -> None:
        await self._server.serve(context, RTDS)

    async def DeltaRuntime(self, _: object, context: Any) -> None:
        await self._server.serve(context, RTDS, delta=True)


class _Ads(ads_pb2_grpc.AggregatedDiscoveryServiceServicer):  # type: ignore[misc]
    def __init__(self, server: XdsServer) -> None:
        self._server = server

    async def StreamAggregatedResources(self, _: object, context: Any) -> None:
        await self._server.serve(context)

    async def DeltaAggregatedResources(self, _: object, context: Any) -> None:
        await self._server.serve(context, delta=True)
