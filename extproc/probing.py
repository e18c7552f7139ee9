"""Active probes as settings want them: settings in, a prober out."""

from __future__ import annotations

import os

from extproc.config import Settings
from extproc.config.probes import ProbeModel
from extproc.persistence import instance
from extproc.probes.budget import Cost
from extproc.probes.kinds import DEFAULT, NAMES, load_golden, make_probes
from extproc.probes.kinds.base import Band
from extproc.probes.lease import Lease, RedisLease
from extproc.probes.matrix import Subject
from extproc.probes.matrix import bands as bands_of
from extproc.probes.prober import Prober
from extproc.probes.settings import ProberSettings
from extproc.probes.target import ClientTls, Target
from extproc.processor import Services


def make_prober(settings: Settings, services: Services) -> Prober:
    """The prober of a sidecar. Raises StoreError when the fleet's client is not installed."""
    wanted = subjects(settings)
    lease: Lease | None = None
    url = settings.fleet.url.get_secret_value()
    if url:
        name = settings.fleet.instance or instance(settings.grpc.address)
        # Another process may have had that name a moment ago: it is not us.
        holder = f"{name}/{os.getpid()}-{os.urandom(4).hex()}"
        lease = RedisLease(url, settings.fleet.prefix, holder, settings.probes.lease)
    return Prober(services, wanted, bands(settings), prober_settings(settings), lease)


def prober_settings(settings: Settings) -> ProberSettings:
    """What the settings say of all probes."""
    probes = settings.probes
    budget = probes.budget
    return ProberSettings(
        interval=probes.interval,
        timeout=probes.timeout,
        limit=Cost(budget.requests, budget.tokens, budget.seconds),
        window=budget.window,
        long_tokens=probes.long_tokens,
        first_pause=probes.first_pause,
        longest_pause=probes.longest_pause,
        seed=probes.seed,
        probes=make_probes(load_golden(probes.golden) if probes.golden else DEFAULT),
    )


def subjects(settings: Settings) -> list[Subject]:
    """The units that have a place to be probed at."""
    return [
        Subject(unit.unit(), target(unit.probe), tuple(unit.probe.kinds) or NAMES)
        for unit in settings.units
        if unit.probe is not None
    ]


def bands(settings: Settings) -> tuple[Band, ...]:
    """The context classes of the settings."""
    classes = [(entry.name, entry.up_to_bytes) for entry in settings.context_classes]
    return bands_of(classes, settings.largest_class)


def target(probe: ProbeModel) -> Target:
    """Where a unit is probed."""
    tls = probe.tls
    return Target(
        probe.base_url,
        probe.model,
        probe.api_key_env,
        ClientTls(tls.ca_file, tls.cert_file, tls.key_file, tls.verify) if tls else None,
        probe.headers,
        probe.extra,
    )
