"""``/api/evidence``: the records behind verdicts and changes of state."""

from __future__ import annotations

from typing import Protocol

from aiohttp import web

from extproc.health.evidence import Evidence
from extproc.health.stores import StoreError

MOST = 1000
"""Records of one answer."""


class Records(Protocol):
    """Who keeps them."""

    async def find(self, id: str) -> Evidence | None:
        """One record. Raises StoreError."""

    async def recent(self, unit: str = "", limit: int = 50) -> list[Evidence]:
        """The latest records, newest first, of one unit or of all. Raises StoreError."""


def evidence_routes(records: Records) -> list[web.RouteDef]:
    """``/api/evidence?unit=&limit=`` and ``/api/evidence/{id}``."""

    async def latest(request: web.Request) -> web.Response:
        text = request.query.get("limit", "50")
        digits = len(text) <= 9 and text.isascii() and text.isdecimal()
        if not (digits and 1 <= int(text) <= MOST):
            raise web.HTTPBadRequest(text=f"limit must be a number from 1 to {MOST}\n")
        try:
            found = await records.recent(request.query.get("unit", ""), int(text))
        except StoreError as error:
            raise web.HTTPServiceUnavailable(text=f"{error}\n") from None
        return web.json_response({"evidence": [record.as_dict() for record in found]})

    async def one(request: web.Request) -> web.Response:
        id = request.match_info["id"]
        try:
            found = await records.find(id)
        except StoreError as error:
            raise web.HTTPServiceUnavailable(text=f"{error}\n") from None
        if found is None:
            raise web.HTTPNotFound(
                text="no record has this id: it is past its retention, or was never kept\n"
            )
        return web.json_response(found.as_dict())

    return [web.get("/api/evidence", latest), web.get("/api/evidence/{id}", one)]
