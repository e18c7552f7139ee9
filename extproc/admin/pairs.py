"""``/api/pairs``: how mirrored requests came out on the two units that answered them."""

from __future__ import annotations

import time

from aiohttp import web

from extproc.health.outcomes import Outcomes


def pair_routes(outcomes: Outcomes) -> list[web.RouteDef]:
    """The route. Counts are since this process started."""
    started = time.time()

    async def pairs(request: web.Request) -> web.Response:
        return web.json_response({"since": started, "pairs": outcomes.as_list()})

    return [web.get("/api/pairs", pairs)]
