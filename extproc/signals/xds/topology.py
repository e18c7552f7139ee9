"""What an operator lists for the xDS server: clusters with their endpoints, and canary weights."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

INTERNAL = "envoy://"
"""Prefix of an endpoint that is an internal listener of Envoy's."""

UNIX = "unix://"
"""Prefix of an endpoint that is a Unix socket."""


class Hard(StrEnum):
    """What Envoy is told of an endpoint whose unit is cut off."""

    UNHEALTHY = "unhealthy"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint of a cluster.

    ``address``: "ip:port", "envoy://internal-listener" or "unix:///path". ``ask``: whom the health
    endpoint is asked about for it (a unit, or whatever else ``/unit-health`` answers for).
    ``metadata`` goes to Envoy under the namespace ``semantic.extproc``. ``weight`` 0: Envoy's
    default.
    """

    address: str
    ask: str
    priority: int = 0
    weight: int = 0
    metadata: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Cluster:
    """One EDS resource."""

    name: str
    endpoints: tuple[Endpoint, ...]
    hard: Hard = Hard.UNHEALTHY


@dataclass(frozen=True, slots=True)
class Weight:
    """One runtime key of a unit: ``weight`` in ``pass``, 0 in ``quarantine``, and in ``observe``
    what it was; ``reentry`` when it was 0 or is not known."""

    key: str
    ask: str
    weight: int
    reentry: int = 1


@dataclass(frozen=True, slots=True)
class Topology:
    """All of it. ``layer`` is the name of the RTDS layer that holds the weights."""

    clusters: tuple[Cluster, ...] = ()
    layer: str = ""
    weights: tuple[Weight, ...] = ()
