"""What holds for every probe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from extproc.probes.budget import Cost
from extproc.probes.kinds import Probe, make_probes


@dataclass(frozen=True, slots=True)
class ProberSettings:
    """Times in seconds. ``limit`` in each ``window`` is what probes may spend."""

    interval: float = 60.0
    timeout: float = 60.0
    limit: Cost = Cost(200, 250_000, 900.0)
    window: float = 3600.0
    long_tokens: int = 8192
    first_pause: float = 30.0
    longest_pause: float = 600.0
    seed: int = 0
    probes: Mapping[str, Probe] = field(default_factory=make_probes)
