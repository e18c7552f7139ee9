"""Settings in, the services of a process out; and the same services by other settings."""

from __future__ import annotations

import gc
from typing import Any

from extproc import __version__
from extproc.config import Settings
from extproc.detect import Catalogue, make_catalogue
from extproc.health import HealthSettings, Ledger
from extproc.health.sampling import Sampler
from extproc.processor import HoldPolicy, ServerSettings, Services
from extproc.signals import Metrics
from extproc.units import ContextClasses, Registry, Unit
from extproc.wire import Limits, Router


def make_services(settings: Settings) -> Services:
    """What all streams share, as ``settings`` want it."""
    units = make_units(settings)
    ledger = Ledger(units, HealthSettings(**settings.health.model_dump()))
    registry = make_registry(settings)
    metrics = Metrics()
    metrics.watch(ledger, registry)
    metrics.build_info.labels(__version__).set(1)
    return Services(registry=registry, ledger=ledger, metrics=metrics, **policy(settings))


def reconfigure(services: Services, settings: Settings) -> None:
    """Lets ``services`` go by ``settings``. What is known of units stays."""
    services.registry.become(make_registry(settings))
    services.ledger.configure(make_units(settings), HealthSettings(**settings.health.model_dump()))
    for name, value in policy(settings).items():
        setattr(services, name, value)


def make_units(settings: Settings) -> list[Unit]:
    """The deployment units of the configuration."""
    return [unit.unit() for unit in settings.units]


def make_registry(settings: Settings) -> Registry:
    """Who answers, by the configuration."""
    clusters = {cluster: unit.id for unit in settings.units for cluster in unit.clusters}
    return Registry(make_units(settings), clusters)


def policy(settings: Settings) -> dict[str, Any]:
    """The fields of ``Services`` that follow from settings alone: how streams are treated."""
    return {
        "contexts": ContextClasses(
            [(entry.name, entry.up_to_bytes) for entry in settings.context_classes],
            settings.largest_class,
        ),
        "router": Router(settings.paths),
        "limits": Limits(
            settings.limits.body_bytes, settings.limits.message_bytes, settings.limits.expansion
        ),
        "hold": HoldPolicy(**settings.hold.model_dump()),
        "sampler": Sampler(
            settings.sampling.share,
            {unit.id: unit.sample for unit in settings.units if unit.sample is not None},
        ),
        "client_attributes": tuple(settings.sampling.client_attributes),
        "trusted_headers": {
            what: name for what, name in settings.trusted_headers.model_dump().items() if name
        },
        "terminate": settings.late_verdict == "terminate",
        "catalogue": make_catalogue(settings.policy()),
        "catalogues": catalogues(settings),
    }


def catalogues(settings: Settings) -> dict[str, Catalogue]:
    """Of the units that are judged otherwise than the rest."""
    policies = {unit.id: settings.policy_of(unit.id) for unit in settings.units}
    common = settings.policy()
    return {unit: make_catalogue(p) for unit, p in policies.items() if p != common}


def settled() -> None:
    """All that lives as long as the process is made: the collector need not walk it with every few
    thousand events. Its rounds over all streams are left to ``sweep``."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


SWEEP_SECONDS = 60.0


def sweep() -> None:
    """Collects what long streams left behind: gRPC leaves a small circle with each, which has grown
    old by then. To be called every ``SWEEP_SECONDS``; some milliseconds for a thousand streams."""
    gc.collect()


def grpc_settings(settings: Settings, address: str) -> ServerSettings:
    """How the ext_proc server on ``address`` listens."""
    grpc = settings.grpc
    return ServerSettings(
        address,
        int(grpc.unix_mode, 8),
        grpc.tls.files if grpc.tls is not None else None,
        grpc.max_message_bytes,
        grpc.max_connection_age,
    )
