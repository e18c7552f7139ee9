"""The status page: everything about the units on one page, readable without JavaScript.

Rendered here, all of it; the script only asks for it again when ``/api/events`` says that
something changed. It shows nothing that ``/api`` does not, and changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from importlib import resources
from typing import Any

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined

from extproc import __version__
from extproc.admin import sparkline
from extproc.admin.evidence import Records
from extproc.admin.feed import EVERY, Feed
from extproc.admin.history import History, Key, Totals
from extproc.detect import Kind
from extproc.health import Evidence, Severity, State
from extproc.health.states import SEVERITY
from extproc.health.stores import StoreError
from extproc.processor import Services

log = logging.getLogger(__name__)

FRESH = 20
"""A page is shown again for so many times what it took to make: with many units and many clients,
making it anew for each would keep the loop from reading responses."""

RECORDS = 20
"""Records of evidence that are shown."""

SECURITY = {
    # Nothing from elsewhere, nothing inline, nothing that could be posted, no frame around it.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

ASSETS = {"status.css": "text/css", "status.js": "text/javascript"}


class StatusPage:
    """``/``, its assets, and ``/api/events``."""

    def __init__(
        self,
        services: Services,
        describe: Callable[[], list[dict[str, Any]]],
        serving: Callable[[], bool],
        records: Records | None,
    ) -> None:
        self._services = services
        self._describe = describe
        self._serving = serving
        self._records = records
        self._started = time.time()
        self._history = History()
        self._made: tuple[int, float, bytes] = (-1, 0.0, b"")  # version, until when, the page
        self._making = asyncio.Lock()
        self.feed = Feed(self._event)
        environment = Environment(
            loader=PackageLoader("extproc.admin", "static"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters["ago"] = _ago
        environment.filters["stamp"] = _stamp
        environment.filters["share"] = _share
        self._template = environment.get_template("status.html")
        folder = resources.files("extproc.admin") / "static"
        self._assets = {name: (folder / name).read_bytes() for name in ASSETS}

    def add_to(self, app: web.Application) -> None:
        """Adds the routes, and the task that looks once a second while the application runs."""
        app.add_routes(
            [
                web.get("/", self._page),
                *(web.get(f"/{name}", self._asset) for name in ASSETS),
                web.get("/api/events", self.feed.handle),
            ]
        )
        app.cleanup_ctx.append(self._looking)
        app.on_shutdown.append(self._shut)

    async def _looking(self, _: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(self._look(), name="status page")
        yield
        task.cancel()

    async def _shut(self, _: web.Application) -> None:
        self.feed.close()

    async def _look(self) -> None:
        clock = asyncio.get_running_loop().time
        served = False
        while True:
            try:
                self._history.sample(clock(), self._totals())
                self.feed.look()
                if served and not self._serving():
                    self.feed.close()  # it drains: whoever listens is to look for another
                served = self._serving()
            except Exception:
                log.exception("the status page could not look")
                self._services.metrics.errors.labels("status_page").inc()
            await asyncio.sleep(EVERY)

    def _totals(self) -> dict[Key, Totals]:
        ledger = self._services.ledger
        return {
            (unit, release, context): Totals(
                track.counts.total() - track.counts[Kind.UNCHECKED], track.counts[Kind.CORRUPT]
            )
            for unit in ledger.units
            for release, context, track in ledger.tracks(unit)
        }

    def _event(self) -> dict[str, Any]:
        return {"serving": self._serving(), "units": self._describe()}

    async def _asset(self, request: web.Request) -> web.Response:
        name = request.path.lstrip("/")
        headers = {**SECURITY, "Content-Type": f"{ASSETS[name]}; charset=utf-8"}
        return web.Response(body=self._assets[name], headers=headers)

    async def _page(self, _: web.Request) -> web.Response:
        async with self._making:
            body = await self._fresh()
        headers = {**SECURITY, "Content-Type": "text/html; charset=utf-8"}
        return web.Response(body=body, headers=headers)

    async def _fresh(self) -> bytes:
        clock = asyncio.get_running_loop().time
        version, until, body = self._made
        if version != self.feed.version or clock() >= until:
            version = self.feed.version
            evidence, trouble = await self._evidence()
            started = clock()
            body = self._render(evidence, trouble)
            self._made = version, clock() + FRESH * (clock() - started), body
        return body

    async def _evidence(self) -> tuple[list[Evidence], str]:
        """The latest records, and why there are none."""
        if self._records is None:
            return [], ""
        try:
            return await self._records.recent(limit=RECORDS), ""
        except StoreError as error:
            return [], str(error)

    def _render(self, evidence: list[Evidence], trouble: str) -> bytes:
        units = [self._unit(unit) for unit in self._describe()]
        units.sort(key=lambda unit: (-SEVERITY[unit["state"]], unit["id"]))
        return self._template.render(
            version=__version__,
            now=time.time(),
            started=self._started,
            serving=self._serving(),
            components={name: said() for name, said in self._services.components.items()},
            seen=sum(sum(unit["counts"].values()) for unit in units),
            units=units,
            out=[unit["id"] for unit in units if unit["state"] == State.QUARANTINE],
            soft=[unit["id"] for unit in units if unit["mode"] == Severity.SOFT],
            observed=[unit["id"] for unit in units if unit["state"] == State.OBSERVE],
            evidence=evidence,
            trouble=trouble,
            height=sparkline.HEIGHT,
        ).encode()

    def _unit(self, described: dict[str, Any]) -> dict[str, Any]:
        registry = self._services.registry
        known = registry.get(described["id"])
        points = self._history.points(described["id"])
        judged = sum(point.judged for point in points)
        bad = sum(point.corrupt for point in points)
        ledger = self._services.ledger
        return {
            **described,
            "state": State(described["state"]),
            "what": _what(known),
            "covers": [
                {
                    "id": name,
                    "verified": ledger.verified(name),
                    "state": ledger.unit_state(name),
                }
                for name in described["fallback"]
            ],
            "width": sparkline.width(points),
            "traffic": sparkline.traffic(points),
            "corrupt": sparkline.corrupt(points),
            "words": sparkline.words(points),
            "rate": bad / judged if judged else None,
            "drained": [name for name, host in described["hosts"].items() if host["drained"]],
        }


def _what(unit: Any) -> str:
    """What a unit runs, in a few words."""
    if unit is None:
        return ""
    engine = " ".join(filter(None, (unit.engine, unit.engine_version)))
    cards = f"TP {unit.tensor_parallel}" if unit.tensor_parallel > 1 else ""
    return " · ".join(filter(None, (unit.model, engine, unit.quantization, unit.backend, cards)))


def _ago(at: float, now: float) -> str:
    seconds = max(0.0, now - at)
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"


def _stamp(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def _share(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.0%}" if value in (0, 1) else f"{value:.1%}"
