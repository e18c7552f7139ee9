"""What of a sidecar outlives it, and what it shares. Settings in, a running store and fleet out."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from extproc.config import Settings
from extproc.config.stores import StoreModel
from extproc.health import Evidence, Subject
from extproc.health.agreement import Agreement
from extproc.health.shared import Telling, telling
from extproc.health.stores import Book, Store, StoreError
from extproc.health.stores.fleet import Fleet
from extproc.health.stores.keeper import Keeper, KeeperSettings
from extproc.health.stores.memory import MemoryStore
from extproc.health.stores.redis_link import RedisLink
from extproc.health.stores.sqlite import DAY, SqliteStore
from extproc.membership import Membership
from extproc.processor import Services
from extproc.samples import make_quote

log = logging.getLogger(__name__)

FILE = "semantic-extproc.db"

MAX_IN_MEMORY = 10_000
"""Records of evidence, about 1 KiB each."""


@runtime_checkable
class Part(Protocol):
    """What somebody else wants to keep in one transaction with the book."""

    def snapshot(self) -> object:
        """As JSON holds it."""

    def restore(self, kept: object) -> None:
        """Takes back a snapshot, None if there was none. Raises TypeError or ValueError."""


class Persistence:
    """Hears of every record that ``services`` send, keeps it with the book, tells the fleet."""

    def __init__(self, settings: Settings, services: Services) -> None:
        self._settings = settings
        self._services = services
        self.parts: dict[str, Part] = {}
        """Name in the book -> what is kept beside it."""

        self._keeper: Keeper | None = None
        self._agreement: Agreement | None = None
        self._membership: Membership | None = None
        self._fleet: Fleet | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._kept_in = ""

    async def start(self) -> None:
        """Restores what was kept, and begins to keep.

        Raises StoreError when the store that was asked for cannot be used. Without a path in the
        settings nobody asked for one: then memory will do, and it is said.
        """
        told = await self._open()
        services = self._services
        try:
            if url := self._settings.fleet.url.get_secret_value():
                self._join(url, told)
        except StoreError:
            await self.stop()
            raise
        services.sinks.append(self)
        services.keep = self._keep
        services.components["store"] = self._store_status
        if self._fleet is not None:
            services.components["fleet"] = self._fleet_status
            await self._fleet.sync()  # what the others know, before the first request
            self._tasks.append(asyncio.create_task(self._fleet.run(), name="fleet"))
        self._tasks.append(asyncio.create_task(self._running.run(), name="keeper"))
        services.tick()  # what ended while nobody was here

    async def stop(self) -> None:
        """Keeps and tells the last of it, and ends. Bounded in time; never raises StoreError."""
        while running := [task for task in self._tasks if not task.done()]:
            for task in running:
                task.cancel()
            # Again after a second: what a library swallows must not hold the end up.
            await asyncio.wait(running, timeout=1.0)
        self._tasks.clear()
        if self._fleet is not None:
            await self._fleet.close()
        if self._keeper is not None:
            await self._keeper.close()
        self._fleet = self._keeper = None

    def evidence(self, record: Evidence) -> None:
        """Takes one record."""
        if self._keeper is not None:
            self._keeper.evidence(record)
        if self._fleet is not None and record.subject is not Subject.VERDICT:
            self._fleet.nudge()

    def redefine(self) -> None:
        """The configuration defines units otherwise now: the next exchange tells the fleet."""
        if self._agreement is not None:
            self._agreement.define(self._services.registry)

    async def settle(self) -> None:
        """Tells people what still waits for the fleet. Bounded in time."""
        if self._fleet is not None and self._membership is not None and self._membership.waiting:
            await self._fleet.sync()

    async def find(self, id: str) -> Evidence | None:
        """One record. Raises StoreError."""
        return await self._running.find(id)

    async def recent(self, unit: str = "", limit: int = 50) -> list[Evidence]:
        """The latest records, newest first, of one unit or of all. Raises StoreError."""
        return await self._running.recent(unit, limit)

    @property
    def _running(self) -> Keeper:
        if self._keeper is None:
            raise StoreError("the sidecar is starting or stopping")
        return self._keeper

    async def _keep(self) -> bool:
        return self._keeper is not None and await self._keeper.flush()

    async def _open(self) -> list[Telling]:
        settings = self._settings.store
        memory = MemoryStore(min(settings.max_records, MAX_IN_MEMORY))
        if settings.kind == "memory":
            return await self._restore(memory, "memory, as store.kind says")
        try:
            path = settings.path or default_path(os.environ)
            return await self._restore(_sqlite(path, settings), str(path))
        except StoreError as error:
            if settings.path is not None:
                raise
            log.warning(
                "states and evidence are kept in memory and end with this process: %s. "
                "store.kind: memory says that this is meant",
                error,
            )
            return await self._restore(memory, f"memory, because {error}")

    async def _restore(self, store: Store, where: str) -> list[Telling]:
        """Opens ``store`` and takes the book back; what the fleet was told stands there too."""
        services = self._services
        told: list[Telling] = []
        try:
            book = await store.open()
            if book is not None:
                told = [telling(each) for each in book.get("told", ())]
                services.ledger.restore(book)
                for name, part in self.parts.items():
                    part.restore(book.get(name))
                log.info(
                    "states of %d units are those kept in %s", len(services.ledger.units), where
                )
        except (TypeError, ValueError) as error:
            await store.close()
            raise StoreError(
                f"{where}: the states in it cannot be read ({error}); nothing was changed. Run the "
                "version that wrote them, or move the file away to begin anew"
            ) from None
        except StoreError:
            await store.close()
            raise
        services.metrics.keeping.store_saved(True)
        services.quote = make_quote(
            self._settings.samples, store.path if isinstance(store, SqliteStore) else None
        )
        in_memory = isinstance(store, MemoryStore)
        self._kept_in = where
        self._keeper = Keeper(
            store,
            self._snapshot,
            services.metrics.keeping,
            # A book in memory is of no use to anybody; samples must go in time.
            KeeperSettings(tick=60.0) if in_memory else KeeperSettings(),
        )
        return told

    def _join(self, url: str, told: list[Telling]) -> None:
        fleet, services = self._settings.fleet, self._services
        name = fleet.instance or instance(self._settings.grpc.address)
        self._agreement = Agreement(services.ledger, name, told, services.registry)
        member = self._membership = Membership(self._agreement, services)
        self._fleet = Fleet(
            RedisLink(url, fleet.prefix, fleet.ttl_seconds), member, services.metrics.keeping
        )
        member.reached = lambda: self._fleet is not None and not self._fleet.trouble
        services.keeps_back = member.keeps_back

    def _snapshot(self) -> Book:
        book = self._services.ledger.snapshot()
        if self._agreement is not None:
            # With their epochs: what was decided while the fleet was away must hold against it
            # after a restart as well.
            book["told"] = [each.as_dict() for each in self._agreement.told]
        for name, part in self.parts.items():
            book[name] = part.snapshot()
        return book

    def _store_status(self) -> str:
        trouble = self._keeper.trouble if self._keeper is not None else "stopped"
        return f"failing: {trouble}" if trouble else f"ok: {self._kept_in}"

    def _fleet_status(self) -> str:
        if self._fleet is None:
            return "stopped"
        if self._fleet.trouble:
            return f"unreachable, decisions are local: {self._fleet.trouble}"
        count = len(self._fleet.unreadable)
        troubles = [f"{count} entries are of no sidecar"] if count else []
        if self._membership is not None and self._membership.trouble:
            troubles.append(self._membership.trouble)
        return f"ok, but {'; '.join(troubles)}" if troubles else "ok"


def default_path(environment: Mapping[str, str]) -> Path:
    """Where the file is by default; its folder is made. Raises StoreError.

    systemd names the service's own folder; elsewhere it is the user's folder for state (XDG Base
    Directory Specification).
    """
    given = environment.get("STATE_DIRECTORY", "").partition(":")[0]
    if given:
        return Path(given) / FILE
    try:
        home = environment.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        folder = Path(home) / "semantic-extproc"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:
        raise StoreError(f"there is no folder for state ({error}); set store.path") from None
    return folder / FILE


def instance(address: str) -> str:
    """A name for the sidecar on ``address``: the same after a restart, different from others'."""
    return f"{socket.gethostname()}:{address.rpartition(':')[2]}"


def _sqlite(path: Path, settings: StoreModel) -> SqliteStore:
    return SqliteStore(path, settings.retention_days * DAY, settings.max_records)
