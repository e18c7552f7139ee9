"""How long this sidecar may go on probing: it keeps the lease, and shares what was found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from extproc.health.stores import StoreError
from extproc.probes.lease import Lease

SAFE = 0.8
"""Share of the lease's time after which it counts as lost: clocks differ, and messages travel."""


class Tenure:
    """Holds ``lease`` while it can. ``restore`` takes what the latest holder found, or None;
    ``told`` hears, again and again, whether we hold it."""

    def __init__(
        self,
        lease: Lease,
        snapshot: Callable[[], dict[str, Any]],
        restore: Callable[[Any], None],
        told: Callable[[bool], None],
    ) -> None:
        self._lease = lease
        self._snapshot = snapshot
        self._restore = restore
        self._told = told
        self._token = 0
        self._until = float("-inf")
        self.trouble = ""
        """Why the lease cannot be asked for, "" while it can."""

    @property
    def holds(self) -> bool:
        """Whether nobody else can be probing."""
        return bool(self._token) and asyncio.get_running_loop().time() < self._until

    async def run(self) -> None:
        """Keeps or awaits the lease until it is cancelled."""
        lease, clock = self._lease, asyncio.get_running_loop().time
        while True:
            asked = clock()
            try:
                token = await lease.hold()
                if token != self._token or not token:
                    self._restore(await lease.load())
                self._token, self._until = token, asked + SAFE * lease.seconds
                self.trouble = ""
            except StoreError as error:
                self.trouble = str(error)  # what was ours stays ours to its end
            self._told(self.holds)
            await asyncio.sleep(min(lease.seconds / 5, 5.0))

    async def share(self) -> None:
        """Tells the others what was found."""
        if not self._token:
            return
        try:
            if not await self._lease.save(self._token, self._snapshot()):
                self._token = 0  # a later holder has spoken
        except StoreError as error:
            self.trouble = str(error)

    async def close(self) -> None:
        """Lets another one begin. Never raises."""
        with suppress(StoreError):
            if self.holds:
                await self._lease.save(self._token, self._snapshot())
        self._token = 0
        await self._lease.close()
