"""What leaves the sidecar by itself: webhooks and xDS. Settings in, running senders out."""

from __future__ import annotations

from extproc.config import Settings
from extproc.config.signals import EndpointModel, RuntimeKeyModel, WebhookModel, XdsModel
from extproc.health import State
from extproc.processor import Services
from extproc.processor.server import credentials
from extproc.signals import answer
from extproc.signals.secret import secret
from extproc.signals.webhooks import Target, Webhooks
from extproc.signals.xds import Cluster, Endpoint, Hard, Topology, Weight, XdsServer
from extproc.tls import Certificates


class Outlets:
    """Those that ``settings`` want, hearing of every record that ``services`` send."""

    def __init__(self, settings: Settings, services: Services) -> None:
        self._webhooks = Webhooks([_target(hook) for hook in settings.webhooks], services.metrics)
        if settings.webhooks:
            services.heralds.append(self._webhooks)
        self._xds: XdsServer | None = None
        if settings.xds.address is not None:
            self._xds = _xds(settings.xds, settings.xds.address, services)
            services.sinks.append(self._xds)

    @property
    def xds_port(self) -> int:
        """The port that the xDS server was bound to, 0 without one."""
        return self._xds.port if self._xds is not None else 0

    async def start(self) -> None:
        """Begins to send. Raises OSError when the xDS address cannot be had."""
        if self._xds is not None:
            await self._xds.start()
        await self._webhooks.start()

    async def stop(self) -> None:
        """Sends what waits, within bounds, and ends."""
        await self._webhooks.stop()
        if self._xds is not None:
            await self._xds.stop()


def _target(hook: WebhookModel) -> Target:
    return Target(
        hook.name,
        hook.url.get_secret_value(),
        frozenset(State(name) for name in hook.states),
        tuple(hook.units),
        hook.verdicts,
        hook.verifications,
        secret(hook.secret_env, hook.secret_file),
        hook.timeout,
        hook.attempts,
        hook.queue,
    )


def _xds(settings: XdsModel, address: str, services: Services) -> XdsServer:
    runtime, tls, shown = settings.runtime, settings.tls, None
    if tls is not None:
        shown = Certificates(tls.files, "xds.tls", services.metrics.certificate("xds"))
    topology = Topology(
        tuple(
            Cluster(
                cluster.name, tuple(_endpoint(e) for e in cluster.endpoints), Hard(cluster.hard)
            )
            for cluster in settings.clusters
        ),
        runtime.layer if runtime is not None else "",
        tuple(
            Weight(entry.key, _ask(entry), entry.weight, entry.reentry)
            for entry in (runtime.keys if runtime is not None else ())
        ),
    )
    return XdsServer(
        address,
        topology,
        lambda asked: answer(asked, services.ledger, services.registry),
        services.metrics,
        credentials(shown) if shown is not None else None,
    )


def _endpoint(settings: EndpointModel) -> Endpoint:
    # What tier two needs to know who answered; on tier one it does no harm.
    metadata = [("unit", settings.unit)]
    if settings.host is not None:
        metadata.append(("host", settings.host))
    return Endpoint(
        settings.address,
        _ask(settings),
        settings.priority,
        settings.weight or 0,
        tuple(metadata),
    )


def _ask(settings: EndpointModel | RuntimeKeyModel) -> str:
    """The Host header with which ``/unit-health`` would be asked."""
    if settings.context_class is not None:
        return f"{settings.unit}#{settings.context_class}"
    host = settings.host if isinstance(settings, EndpointModel) else None
    return f"{settings.unit}@{host}" if host is not None else settings.unit
