"""What is known of the demo at one moment, gathered from clients, sidecar and Envoy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import aiohttp

from extproc.demo import envoy, sidecar
from extproc.demo.load import Tally
from extproc.demo.topology import LISTENERS, UNIT_A, UNIT_B, Topology


@dataclass(slots=True)
class Row:
    """One unit. ``requests``: attempts that Envoy's front sent to it."""

    status: sidecar.UnitStatus = field(default_factory=sidecar.UnitStatus)
    requests: int = 0
    flags: frozenset[str] = frozenset()
    flags_ever: frozenset[str] = frozenset()


class Board:
    """The latest knowledge, and what it was before: a change is told at once."""

    def __init__(
        self,
        topology: Topology,
        tally: Tally,
        front: envoy.Admin,
        admin: sidecar.Admin,
        say: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        self.rows = {UNIT_A: Row(), UNIT_B: Row()}
        self.tally = tally
        self.retries = 0
        self.unjudged = 0
        self.corrupt_generated = 0
        """Requests that the corrupt build took, by Envoy's count: each is a corrupt answer."""

        self.quarantined_at: float | None = None
        self._topology = topology
        self._front = front
        self._admin = admin
        self._say = say
        self._clock = clock

    async def refresh(self) -> None:
        """Asks sidecar and Envoy. One that does not answer in time leaves its last word."""
        try:
            units = await self._admin.units()
            snapshot = await self._front.snapshot()
        except (aiohttp.ClientError, TimeoutError):
            return
        self.retries = snapshot.retries
        self.unjudged = snapshot.unjudged
        corrupt_host = envoy.loopback(self._topology.rollout.port)
        cluster = LISTENERS[self._topology.rollout.unit]
        self.corrupt_generated = snapshot.host(cluster, corrupt_host).requests
        for unit, row in self.rows.items():
            host = snapshot.host("llm", envoy.unit_address(LISTENERS[unit]))
            row.requests = host.requests
            self._state(unit, row, units.get(unit, row.status))
            self._flags(unit, row, host.flags)

    def _state(self, unit: str, row: Row, now: sidecar.UnitStatus) -> None:
        before, row.status = row.status, now
        if now.state == "quarantine" and unit == UNIT_A and self.quarantined_at is None:
            self.quarantined_at = self._clock()
        if before.state not in ("?", now.state):
            self._say(f"{unit}: {before.state} -> {now.state} (release {now.release})")

    def _flags(self, unit: str, row: Row, now: frozenset[str]) -> None:
        before, row.flags = row.flags, now
        row.flags_ever |= now
        for flag in sorted(now - before):
            self._say(f"{unit}: Envoy set /{flag}")
        for flag in sorted(before - now):
            self._say(f"{unit}: Envoy took /{flag} back")
