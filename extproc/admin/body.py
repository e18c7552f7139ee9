"""What requests to the admin API carry: one JSON object, short, strict, and soon."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

PATIENCE = 10.0
"""Seconds for which a body may take to arrive."""


async def read_object(request: web.Request) -> dict[str, Any]:
    """The JSON object in the body, UTF-8 whatever is declared. Raises HTTPBadRequest,
    HTTPRequestTimeout or HTTPRequestEntityTooLarge."""
    try:
        async with asyncio.timeout(PATIENCE):
            data = await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout(text="the body did not come in time\n") from None
    except (web.RequestPayloadError, HttpProcessingError):
        raise web.HTTPBadRequest(text="the body is not what its headers say\n") from None
    try:
        # Python's own parser takes what nothing after it can store: half a surrogate pair, a
        # number of thousands of digits.
        content = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise web.HTTPBadRequest(text="the body is no JSON\n") from None
    if not isinstance(content, dict):
        raise web.HTTPBadRequest(text="the body must be an object\n")
    return content
