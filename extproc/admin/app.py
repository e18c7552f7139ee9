"""The admin HTTP application: metrics, Envoy's health checks, the API, the status page."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from aiohttp import web
from prometheus_client.exposition import choose_encoder

from extproc.admin.evidence import Records, evidence_routes
from extproc.admin.guard import guard
from extproc.admin.page import StatusPage
from extproc.admin.pairs import pair_routes
from extproc.admin.rollouts import rollout_routes
from extproc.admin.words import read_json, why, word_routes
from extproc.health import Ledger, Severity, severity
from extproc.processor import Services
from extproc.signals import answer
from extproc.units import no_such


def make_app(
    services: Services,
    serving: Callable[[], bool],
    loopback: bool = True,
    token: Callable[[], bytes] | None = None,
    records: Records | None = None,
) -> web.Application:
    """The application. ``serving`` tells whether the gRPC server takes streams; ``loopback`` and
    ``token`` are the guard's; ``records`` are those of evidence, if they are kept."""
    app = web.Application(client_max_size=64 << 10, middlewares=[guard(loopback, token)])
    admin = _Admin(services, serving)
    app.add_routes(
        [
            web.get("/metrics", admin.metrics),
            web.get("/unit-health", admin.unit_health),
            web.get("/healthz", admin.healthz),
            web.get("/api/units", admin.units),
            web.get("/api/units/{unit}", admin.unit),
            web.post("/api/units/{unit}/quarantine", admin.quarantine),
            web.post("/api/units/{unit}/release", admin.release),
            *word_routes(services, admin.named, admin.settled),
            *rollout_routes(admin.described),
            *pair_routes(services.outcomes),
            *(evidence_routes(records) if records is not None else ()),
        ]
    )
    StatusPage(services, admin.all_described, serving, records).add_to(app)
    return app


class _Admin:
    def __init__(self, services: Services, serving: Callable[[], bool]) -> None:
        self._services = services
        self._serving = serving
        self._started = time.time()

    async def metrics(self, request: web.Request) -> web.Response:
        try:
            encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        except (TypeError, ValueError):  # of a version that is none
            encode, content_type = choose_encoder("")
        body = encode(self._services.metrics.exposed)
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def unit_health(self, request: web.Request) -> web.Response:
        services = self._services
        asked = request.query.get("unit", "") or request.host
        reply = answer(asked, services.ledger, services.registry)
        if reply.word == "unknown":  # ids may hold colons: a port is cut off only now
            name, colon, port = asked.rpartition(":")
            if colon and port.isdecimal():
                reply = answer(name, services.ledger, services.registry)
        services.metrics.health_checks.labels(reply.unit, reply.word).inc()
        return web.Response(status=reply.status, headers=reply.headers, text=f"{reply.word}\n")

    async def healthz(self, request: web.Request) -> web.Response:
        serving = self._serving()
        content = {
            "status": "ok" if serving else "not serving",
            "components": {
                "grpc": "serving" if serving else "not serving",
                "admin": "serving",
                **{name: status() for name, status in self._services.components.items()},
            },
            # A filter that was never attached is the commonest fault: then this stays 0.
            "responses_seen": sum(
                track.counts.total()
                for unit in self._services.ledger.units
                for _, _, track in self._services.ledger.tracks(unit)
            ),
            "uptime_seconds": round(time.time() - self._started, 1),
        }
        return web.json_response(content, status=200 if serving else 503)

    async def units(self, request: web.Request) -> web.Response:
        return web.json_response({"units": self.all_described()})

    async def unit(self, request: web.Request) -> web.Response:
        return web.json_response(self._describe(self.named(request)))

    async def quarantine(self, request: web.Request) -> web.Response:
        unit, reason = self.named(request), why(await read_json(request))
        self._services.announce(
            self._services.ledger.hold_out(unit, reason, self._services.clock())
        )
        return await self.settled(unit)

    async def release(self, request: web.Request) -> web.Response:
        unit, reason = self.named(request), why(await read_json(request))
        self._services.announce(self._services.ledger.let_in(unit, reason, self._services.clock()))
        return await self.settled(unit)

    async def settled(self, unit: str) -> web.Response:
        """The unit as it is now, once that is durable."""
        durable = await self._services.keep()
        return web.json_response({**self._describe(unit), "durable": durable})

    def all_described(self) -> list[dict[str, Any]]:
        """Every unit of the configuration, then those met in traffic."""
        return [self._describe(name) for name in self._names()]

    def _names(self) -> list[str]:
        ledger, registry = self._services.ledger, self._services.registry
        return list(dict.fromkeys([*(unit.id for unit in registry), *ledger.units]))

    def described(self, request: web.Request) -> dict[str, Any]:
        """The unit that a request names."""
        return self._describe(self.named(request))

    def named(self, request: web.Request) -> str:
        """The id in the path. Raises HTTPNotFound."""
        unit = request.match_info["unit"]
        if self._services.registry.get(unit) is None and unit not in self._services.ledger.units:
            raise web.HTTPNotFound(text=f"{no_such(unit, self._names())}\n")
        return unit

    def _describe(self, unit: str) -> dict[str, Any]:
        ledger, known = self._services.ledger, self._services.registry.get(unit)
        counts: dict[str, int] = dict.fromkeys(("clean", "suspect", "corrupt", "unchecked"), 0)
        classes: dict[str, Any] = {}
        releases: dict[str, dict[str, int]] = {}
        for release, context, track in ledger.tracks(unit):
            here = releases.setdefault(release, dict.fromkeys(counts, 0))
            for kind, number in track.counts.items():
                counts[kind.value] += number
                here[kind.value] += number
            entry = classes.setdefault(context, {"e_value": 0.0, "suspect_e_value": 0.0})
            entry["state"] = ledger.state(unit, context).value
            entry["e_value"] = max(entry["e_value"], track.corrupt.value)
            entry["suspect_e_value"] = max(entry["suspect_e_value"], track.suspect.value)
            entry["baseline_rate"] = ledger.baseline(unit, context)
        how = severity(unit, ledger, self._services.registry)
        return {
            "id": unit,
            "release": ledger.release(unit) or (known.release if known else ""),
            "state": ledger.unit_state(unit).value,
            "since": ledger.since(unit) or None,
            "mode": None if how is Severity.NONE else how.value,
            "held_by_operator": ledger.held(unit),
            "verified": ledger.verified(unit),
            "verification": _verification(ledger, unit),
            "fallback": list(known.fallback) if known else [],
            "probes": self._services.probe_summary(unit),
            "classes": classes,
            "hosts": {
                name: {"answers": host.answers, "corrupt": host.corrupt, "drained": host.drained}
                for name, host in ledger.hosts(unit).items()
            },
            "counts": counts,
            "releases": releases,
        }


def _verification(ledger: Ledger, unit: str) -> dict[str, Any] | None:
    said = ledger.verification(unit)
    if said is None:
        return None
    return {"release": said.release, "until": said.until, "at": said.at, "cause": said.cause}
