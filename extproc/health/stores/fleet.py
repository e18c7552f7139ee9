"""One view of the units' states for several gateways.

Each second (and at once after a change of its own) a sidecar tells the others its states and takes
over those that supersede them, see ``extproc.health.shared``. Nothing here is on the message path:
streams read the ledger, which this loop updates. While the others cannot be reached the last states
stay, decisions are local, and all of it is told again afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from extproc.health.definitions import Gateway
from extproc.health.shared import Key, Telling, supersedes, was_first
from extproc.health.stores.base import StoreError

log = logging.getLogger(__name__)


class Heard(NamedTuple):
    """What stands where all tell. ``gateways``: who tells. ``unreadable``: names of entries that
    nobody can have told."""

    told: list[Telling]
    gateways: tuple[Gateway, ...] = ()
    unreadable: tuple[str, ...] = ()


class Link(Protocol):
    """The way to the others."""

    async def exchange(self, told: Collection[Telling], gateway: Gateway | None = None) -> Heard:
        """Tells ``told``, and hears what holds now. Bounded in time. Raises StoreError."""

    async def close(self) -> None:
        """Ends it. Never raises."""


class Watcher(Protocol):
    """Who counts."""

    def fleet_synced(self, ok: bool) -> None:
        """An exchange went through, or not."""

    def fleet_adopted(self, number: int) -> None:
        """So many states were taken over from others."""


class Member(Protocol):
    """This sidecar, as the fleet knows it. All of it is called from the event loop and returns at
    once."""

    @property
    def gateway(self) -> Gateway | None:
        """What it means by the units' names."""

    def shared(self) -> Mapping[Key, Telling]:
        """What it tells. An exchange begins."""

    def adopt(self, told: Sequence[Telling]) -> int:
        """Takes over those that supersede own ones by then, or say the same and were first. The
        number of changes."""

    def meet(self, gateways: Sequence[Gateway]) -> None:
        """Takes what the others mean by the units' names."""

    def exchanged(self, ok: bool) -> None:
        """The exchange that began with ``shared`` is over."""


class Fleet:
    """Keeps ``member`` in touch with the others."""

    def __init__(self, link: Link, member: Member, watcher: Watcher, period: float = 1.0) -> None:
        self._link = link
        self._member = member
        self._watcher = watcher
        self._period = period
        self._nudged = asyncio.Event()
        self._exchanging = asyncio.Lock()
        self._trouble: str | None = None
        self._unreadable: tuple[str, ...] = ()
        self._met = False

    @property
    def trouble(self) -> str:
        """Why the others cannot be reached, "" while they can."""
        return self._trouble or ""

    @property
    def unreadable(self) -> tuple[str, ...]:
        """Entries of the shared view that nobody can have told; they are passed over."""
        return self._unreadable

    def nudge(self) -> None:
        """Own states changed: tell it now, not at the next second."""
        self._nudged.set()

    async def run(self) -> None:
        """Exchanges states until it is cancelled."""
        while True:
            with suppress(TimeoutError):
                # Not wait_for: before Python 3.12 it can swallow a cancellation.
                async with asyncio.timeout(self._period):
                    await self._nudged.wait()
                # Several changes come together when a unit falls.
                await asyncio.sleep(min(0.02, self._period))
            await self.sync()

    async def sync(self) -> bool:
        """One exchange. False when it failed; that is logged once for each time it begins to."""
        async with self._exchanging:
            self._nudged.clear()
            ok = False
            try:
                ok = await self._exchange()
            finally:
                self._member.exchanged(ok)
            return ok

    async def _exchange(self) -> bool:
        try:
            own = self._member.shared()
            self._take(await self._link.exchange(own.values(), self._member.gateway), own)
        except StoreError as error:
            self._lost(str(error))
            return False
        except Exception as error:
            log.exception("the exchange with the fleet failed in a way of its own")
            self._lost(type(error).__name__)
            return False
        self._reached()
        return True

    async def close(self) -> None:
        """Tells the last states, then ends the link."""
        if not self._trouble:
            await self.sync()
        await self._link.close()

    def _take(self, heard: Heard, own: Mapping[Key, Telling]) -> None:
        self._member.meet(heard.gateways)
        newer = [each for each in heard.told if supersedes(each, own.get(each.key))]
        first = [each for each in heard.told if each.key in own and was_first(each, own[each.key])]
        if newer or first:
            self._watcher.fleet_adopted(self._member.adopt(newer + first))
        if heard.unreadable != self._unreadable:
            self._unreadable = heard.unreadable
            if heard.unreadable:
                log.error(
                    "the fleet's view holds what no sidecar tells, passed over: %s. Something else "
                    "writes there: give it, or fleet.prefix, another name",
                    ", ".join(heard.unreadable[:5]),
                )

    def _lost(self, reason: str) -> None:
        self._watcher.fleet_synced(False)
        if self._trouble is None or not self._trouble:
            log.error("the fleet cannot be reached: %s. States stay, decisions are local", reason)
        self._trouble = reason

    def _reached(self) -> None:
        self._watcher.fleet_synced(True)
        if self._trouble:
            log.warning("the fleet is reached again; states are those of the fleet")
        elif not self._met:
            log.info("the fleet is reached")
        self._met = True
        self._trouble = ""
