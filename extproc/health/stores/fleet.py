"""One view of the units' states for several gateways.

Each second (and at once after a change of its own) a sidecar tells the others its states and takes
over those that supersede them, see ``extproc.health.shared``. Nothing here is on the message path:
streams read the ledger, which this loop updates. While the others cannot be reached the last states
stay, decisions are local, and all of it is told again afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from extproc.health.shared import SharedState
from extproc.health.stores.base import StoreError

log = logging.getLogger(__name__)


class Heard(NamedTuple):
    """What the others hold. ``unreadable``: names of entries that are no states."""

    states: list[SharedState]
    unreadable: tuple[str, ...] = ()


class Link(Protocol):
    """The way to the others."""

    async def exchange(self, states: Collection[SharedState]) -> Heard:
        """Tells ``states``, and hears what holds now. Bounded in time. Raises StoreError."""

    async def close(self) -> None:
        """Ends it. Never raises."""


class Watcher(Protocol):
    """Who counts."""

    def fleet_synced(self, ok: bool) -> None:
        """An exchange went through, or not."""

    def fleet_adopted(self, number: int) -> None:
        """So many states were taken over from others."""


class Fleet:
    """``shared``: own states by (unit, context). ``adopt``: takes over those of the given states
    that supersede own ones by then. Both are called from the event loop and return at once."""

    def __init__(
        self,
        link: Link,
        shared: Callable[[], Mapping[tuple[str, str], SharedState]],
        adopt: Callable[[Sequence[SharedState]], None],
        watcher: Watcher,
        period: float = 1.0,
    ) -> None:
        self._link = link
        self._shared = shared
        self._adopt = adopt
        self._watcher = watcher
        self._period = period
        self._nudged = asyncio.Event()
        self._trouble: str | None = None
        self._unreadable: tuple[str, ...] = ()
        self._met = False

    @property
    def trouble(self) -> str:
        """Why the others cannot be reached, "" while they can."""
        return self._trouble or ""

    @property
    def unreadable(self) -> tuple[str, ...]:
        """Entries of the shared view that are no states; they are passed over."""
        return self._unreadable

    def nudge(self) -> None:
        """Own states changed: tell it now, not at the next second."""
        self._nudged.set()

    async def run(self) -> None:
        """Exchanges states until it is cancelled."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._nudged.wait(), self._period)
                # Several changes come together when a unit falls.
                await asyncio.sleep(min(0.02, self._period))
            await self.sync()

    async def sync(self) -> bool:
        """One exchange. False when it failed; that is logged once for each time it begins to."""
        self._nudged.clear()
        try:
            own = self._shared()
            self._take(await self._link.exchange(own.values()), own)
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

    def _take(self, heard: Heard, own: Mapping[tuple[str, str], SharedState]) -> None:
        newer = [state for state in heard.states if state.supersedes(own.get(state.key))]
        if newer:
            self._adopt(newer)
            self._watcher.fleet_adopted(len(newer))
        if heard.unreadable != self._unreadable:
            self._unreadable = heard.unreadable
            if heard.unreadable:
                log.error(
                    "the fleet's view holds what is no state, passed over: %s. Something else "
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
