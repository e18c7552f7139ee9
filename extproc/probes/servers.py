"""The servers behind the units: who each says it is, what it offers, and one probe of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from extproc.probes.budget import Budget
from extproc.probes.client import Client, ClientSettings
from extproc.probes.discovery import Capabilities, fingerprint
from extproc.probes.filler import Tokens
from extproc.probes.kinds import Band, Room
from extproc.probes.results import Cell
from extproc.probes.runner import Probed, Runner
from extproc.probes.settings import ProberSettings
from extproc.probes.target import Target

ASKING = 5.0
"""Seconds for a server that is only asked who it is."""


@dataclass(slots=True)
class _Server:
    """What one server offers, and how its tokenizer counts."""

    capabilities: Capabilities
    tokens: Tokens


class Servers:
    """What is known of each unit's server. ``clock``: Unix time."""

    def __init__(
        self, budget: Budget, clock: Callable[[], float], settings: ProberSettings
    ) -> None:
        self._budget = budget
        self._clock = clock
        self._settings = settings
        self._known: dict[str, _Server] = {}
        self._said: dict[str, str] = {}

    def said(self, unit: str) -> str:
        """What a unit's server said of itself when it was asked last, "" before that."""
        return self._said.get(unit, "")

    def forget(self, unit: str) -> None:
        """The unit is another one now."""
        self._said.pop(unit, None)
        self._known.pop(unit, None)

    async def recognise(self, unit: str, target: Target) -> None:
        """Asks a server who it is. Makes nothing compute. Raises ProbeError."""
        async with Client(target, ClientSettings(timeout=ASKING)) as client:
            self._said[unit] = await fingerprint(client)

    async def acquaint(self, unit: str, client: Client) -> None:
        """Learns what the server offers, if that is not known of what it runs now. Raises
        ProbeError or NoRoom."""
        said = await fingerprint(client)
        if self._said.get(unit) != said:
            self._known.pop(unit, None)
        self._said[unit] = said
        if unit not in self._known:
            await self.discover(unit, client)

    async def discover(self, unit: str, client: Client) -> None:
        """Learns what the server offers. Raises ProbeError or NoRoom."""
        tokens = Tokens()
        capabilities = await self._runner(client, tokens).discover()
        self._known[unit] = _Server(capabilities, tokens)

    async def probe(self, cell: Cell, band: Band, client: Client) -> Probed:
        """Probes one cell of a unit whose server is known. Raises NoRoom."""
        server = self._known[cell.unit]
        room = Room(
            model=server.capabilities.model,
            capabilities=server.capabilities,
            band=band,
            tokens=server.tokens,
            long_tokens=self._settings.long_tokens,
            seed=self._settings.seed,
        )
        return await self._runner(client, server.tokens).probe(
            self._settings.probes[cell.kind], room
        )

    def _runner(self, client: Client, tokens: Tokens) -> Runner:
        return Runner(client, self._budget, tokens, self._clock)
