"""``/api/units/{unit}/probes``: what active probes found; and probes by hand."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any, Protocol

from aiohttp import web

from extproc.admin.words import read_json


class Found(Protocol):
    """One result."""

    def shown(self) -> dict[str, Any]:
        """As JSON values."""


class Prober(Protocol):
    """Who probes."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The context classes."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of probes."""

    def described(self, unit: str) -> dict[str, Any] | None:
        """All that is known of a unit, None for one that is not probed."""

    def refuses(self) -> str:
        """Why nothing can be probed from here now, "" if it can."""

    def run_now(
        self, unit: str, contexts: Iterable[str] = (), kinds: Iterable[str] = ()
    ) -> AsyncGenerator[Found, None]:
        """Probes these cells, each once."""


def probe_routes(prober: Prober) -> list[web.RouteDef]:
    """``GET /api/units/{unit}/probes`` and ``POST /api/units/{unit}/probes/run``."""

    def described(request: web.Request) -> dict[str, Any]:
        unit = request.match_info["unit"]
        found = prober.described(unit)
        if found is None:
            raise web.HTTPNotFound(
                text=f"unit {unit!r} is not probed: its settings have no probe.base_url\n"
            )
        return found

    async def probes(request: web.Request) -> web.Response:
        return web.json_response(described(request))

    async def run(request: web.Request) -> web.StreamResponse:
        unit: str = described(request)["unit"]
        content = await read_json(request)
        classes = _names(content, "classes", prober.classes)
        kinds = _names(content, "kinds", prober.kinds)
        if why := prober.refuses():
            raise web.HTTPConflict(text=f"{why}\n")
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        async with aclosing(prober.run_now(unit, classes, kinds)) as results:
            async for result in results:
                await response.write(json.dumps(result.shown()).encode() + b"\n")
        await response.write_eof()
        return response

    return [
        web.get("/api/units/{unit}/probes", probes),
        web.post("/api/units/{unit}/probes/run", run),
    ]


def _names(content: dict[str, Any], key: str, known: tuple[str, ...]) -> list[str]:
    value = content.get(key) or []
    if not isinstance(value, list) or not all(name in known for name in value):
        raise web.HTTPBadRequest(text=f'"{key}" must be a list of these: {", ".join(known)}\n')
    return value
