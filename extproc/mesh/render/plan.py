"""What is to be written, worked out from the settings: the same for every target."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from extproc.config import Settings
from extproc.config.mesh import HostModel, RouteModel, is_ip, split
from extproc.config.model import UnitModel

MESSAGE_TIMEOUT = 1.0
"""Seconds that Envoy waits for an answer of the sidecar; ``hold.gap`` must be less."""


class RenderError(Exception):
    """The settings do not say enough. ``problems``: (setting, what is wrong with it)."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__("\n".join(f"{setting}: {what}" for setting, what in problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Tier:
    """One unit, as it is written. ``listener``: its internal listener."""

    unit: UnitModel
    listener: str
    cluster: str
    """Who balances over its hosts: made here if ``hosts``, else the mesh's own."""

    hosts: tuple[HostModel, ...]

    @property
    def id(self) -> str:
        return self.unit.id


@dataclass(frozen=True, slots=True)
class Front:
    """One route and its units, in the order in which they take traffic."""

    route: RouteModel
    tiers: tuple[Tier, ...]

    @property
    def cluster(self) -> str:
        return self.route.name


@dataclass(slots=True)
class Plan:
    """Everything that a target needs. ``warnings`` grow while it is written."""

    settings: Settings
    fronts: tuple[Front, ...]
    shadow: Tier | None
    addresses: tuple[str, ...]
    health: tuple[str, int]
    warnings: list[str] = field(default_factory=list)

    @property
    def observe(self) -> bool:
        return self.settings.mesh.mode == "observe"

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """Every unit once, those that serve before the shadow."""
        found = {tier.id: tier for front in self.fronts for tier in front.tiers}
        if self.shadow is not None:
            found.setdefault(self.shadow.id, self.shadow)
        return tuple(found.values())

    def warn(self, text: str) -> None:
        """Adds a warning, once."""
        if text not in self.warnings:
            self.warnings.append(text)


SIDECAR = "semantic_extproc"
"""The sidecar's cluster."""

SHADOW = "semantic_shadow"
"""The cluster that copies go to."""


def plan(settings: Settings, standalone: bool = False) -> Plan:
    """``standalone``: there is no mesh whose clusters could be used. Raises ``RenderError``."""
    mesh = settings.mesh
    if not settings.units:
        raise RenderError([("units", "there are none; name at least one deployment unit")])
    problems = [*_address_problems(settings), *_problems(settings)]
    if problems:
        raise RenderError(problems)
    units = {unit.id: _tier(unit, standalone) for unit in settings.units}
    fronts = []
    for route in mesh.routes:
        first = units[route.unit or settings.units[0].id]
        order = dict.fromkeys([first.id, *first.unit.fallback])
        fronts.append(Front(route, tuple(units[name] for name in order)))
    shadow = units[mesh.shadow.unit] if mesh.mode == "shadow" and mesh.shadow.unit else None
    made = Plan(
        settings,
        tuple(fronts),
        shadow,
        tuple(mesh.sidecar.addresses)
        or tuple(map(_local, settings.server.addresses(settings.grpc.address))),
        split(mesh.sidecar.health or _local(settings.admin.address)),
    )
    _warn(made)
    return made


def _tier(unit: UnitModel, standalone: bool) -> Tier:
    name = re.sub(r"[^A-Za-z0-9]+", "_", unit.id).strip("_")
    cluster = unit.clusters[0] if unit.clusters else name
    ours = standalone or not unit.clusters
    return Tier(unit, name, cluster, tuple(unit.hosts) if ours else ())


def _local(address: str) -> str:
    """Where a server that listens on ``address`` is reached from the same machine."""
    host, _, port = address.rpartition(":")
    return f"127.0.0.1:{port}" if host in ("", "0.0.0.0", "[::]") else address


def _problems(settings: Settings) -> Iterator[tuple[str, str]]:
    mesh = settings.mesh
    listeners: dict[str, str] = {}
    for at, unit in enumerate(settings.units):
        tier = _tier(unit, standalone=True)
        other = listeners.setdefault(tier.listener, unit.id)
        if other != unit.id:
            yield (f"units[{at}].id", f"looks like {other!r} where only letters and digits count")
        if tier.cluster in {SIDECAR, SHADOW, *(route.name for route in mesh.routes)}:
            yield (
                f"units[{at}].{'clusters' if unit.clusters else 'id'}",
                f"the cluster {tier.cluster!r} is a route's or the sidecar's; name it otherwise",
            )
    yield from _route_problems(mesh.routes)
    if mesh.mode == "shadow" and mesh.shadow.unit is None:
        yield ("mesh.shadow.unit", "is missing; which unit gets the copies?")
    for at, route in enumerate(mesh.routes):
        if mesh.mode == "shadow" and mesh.shadow.unit == (route.unit or settings.units[0].id):
            yield ("mesh.shadow.unit", f"serves routes[{at}] itself; a copy would prove nothing")
    for group, tls in (("grpc", settings.grpc.tls), ("admin", settings.admin.tls)):
        if tls is not None and mesh.sidecar.ca_file is None:
            yield (
                "mesh.sidecar.ca_file",
                f"is missing: {group}.tls is on; name the CA, as a file where Envoy runs",
            )
        if tls is not None and tls.client_ca_file is not None and mesh.sidecar.cert_file is None:
            yield (
                "mesh.sidecar.cert_file",
                f"is missing: {group}.tls.client_ca_file demands a certificate of Envoy",
            )
    if settings.hold.gap >= MESSAGE_TIMEOUT and mesh.mode != "observe":
        yield (
            "hold.gap",
            f"{settings.hold.gap:g} s is not less than Envoy's message_timeout, "
            f"{MESSAGE_TIMEOUT:g} s: Envoy would give up before the sidecar answers",
        )


def _address_problems(settings: Settings) -> Iterator[tuple[str, str]]:
    sidecar = settings.mesh.sidecar
    addresses = sidecar.addresses or [settings.grpc.address]
    sockets = [address.startswith("unix:") for address in addresses]
    if any(sockets) and not all(sockets):
        yield ("mesh.sidecar.addresses", "mixes sockets and ports; Envoy wants one kind a cluster")
    own = (("grpc.address", settings.grpc.address), ("admin.address", settings.admin.address))
    for (setting, value), given in zip(own, (sidecar.addresses, sidecar.health), strict=True):
        if not given and value.endswith(":0"):
            yield (setting, "is a port that the system chooses; Envoy must know it beforehand")
    health = sidecar.health or _local(settings.admin.address)
    host = health.rpartition(":")[0].removeprefix("[").removesuffix("]")
    if not is_ip(host):
        yield (
            "mesh.sidecar.health",
            f"{health!r} is no IP address; Envoy looks up no name for a health check",
        )


def _route_problems(routes: Sequence[RouteModel]) -> Iterator[tuple[str, str]]:
    """A virtual host has its domains alone, and of two routes alike the second is never used."""
    for at, route in enumerate(routes):
        for earlier, other in enumerate(routes[:at]):
            if set(route.domains) == set(other.domains):
                if route.prefix == other.prefix and (route.route, route.virtual_host) == (
                    other.route,
                    other.virtual_host,
                ):
                    yield (f"mesh.routes[{at}]", f"takes the same requests as routes[{earlier}]")
            elif common := sorted(set(route.domains) & set(other.domains)):
                yield (
                    f"mesh.routes[{at}].domains",
                    f"{common[0]!r} stands in routes[{earlier}] too; give both the same list, or "
                    "none in common",
                )


def _warn(made: Plan) -> None:
    served = {tier.id for tier in made.tiers}
    for unit in made.settings.units:
        if unit.id not in served:
            made.warn(f"unit {unit.id!r} is in no route: no traffic reaches it")
        elif len(unit.clusters) > 1:
            made.warn(
                f"unit {unit.id!r}: of its clusters only {unit.clusters[0]!r} is used; put all of "
                "its hosts into one"
            )
    for front in made.fronts:
        if len(front.tiers) == 1 and not made.observe:
            made.warn(
                f"route {front.cluster!r}: unit {front.tiers[0].id!r} has no fallback, so nothing "
                "can be retried or moved away; give it `fallback`"
            )
        if len(front.tiers) > 1 and not any(tier.unit.verified for tier in front.tiers[1:]):
            made.warn(
                f"route {front.cluster!r}: no fallback is `verified`, so the sidecar quarantines "
                f"{front.tiers[0].id!r} softly (used last, not cut off)"
            )
    if made.settings.mesh.mode == "shadow" and made.settings.mesh.shadow.percent == 0:
        made.warn("mesh.shadow.percent is 0: no copies until the runtime key is raised")


def place_of_unit(made: Plan, tier: Tier) -> str:
    """The setting ``units[N]`` of a tier."""
    return f"units[{[unit.id for unit in made.settings.units].index(tier.id)}]"
