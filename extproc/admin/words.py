"""What others tell the sidecar of a unit: who may take traffic, and how probes went.

Every word is kept as evidence, with its reason and the name of who said it.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from extproc.admin.body import read_object
from extproc.detect import Finding
from extproc.health import ALL, Probes
from extproc.plain import on_one_line
from extproc.processor import Services
from extproc.units import safe

MAX_REASON = 500
"""Characters of a reason that are kept."""

MAX_NAME = 64
"""Characters of the name that somebody goes by; it is said, not proven."""

LONGEST = 400 * 86_400.0
"""Seconds for which a release may be verified at most."""

MAX_FINDINGS = 32
MAX_TEXT = 200


def word_routes(
    services: Services,
    named: Callable[[web.Request], str],
    settled: Callable[[str], Awaitable[web.Response]],
) -> list[web.RouteDef]:
    """``/api/units/{unit}/verification`` and ``/api/units/{unit}/probes``.

    ``named`` gives the unit of a request or raises HTTPNotFound; ``settled`` answers with the unit.
    """

    async def verify(request: web.Request) -> web.Response:
        unit, content = named(request), await read_json(request)
        cause, release, now = why(content), _release(services, unit, content), services.clock()
        until = _until(content, now)
        services.announce(services.ledger.verify(unit, release, until, cause, now))
        return await settled(unit)

    async def withdraw(request: web.Request) -> web.Response:
        unit, content = named(request), await read_json(request)
        cause, release = why(content), _release(services, unit, content)
        services.announce(services.ledger.withdraw(unit, release, cause, services.clock()))
        return await settled(unit)

    async def probes(request: web.Request) -> web.Response:
        unit, content = named(request), await read_json(request)
        told = Probes(
            unit,
            _release(services, unit, content),
            _class(services, content),
            _name(content, "host") or ALL,
            _count(content, "passed"),
            _count(content, "failed"),
            why(content),
            services.clock(),
            _findings(content),
        )
        if not (told.passed or told.failed):
            raise web.HTTPBadRequest(text='"passed" or "failed" must count at least one probe\n')
        try:
            services.probed(told)
        except ValueError as error:
            raise web.HTTPConflict(text=f"{error}\n") from None
        return await settled(unit)

    return [
        web.post("/api/units/{unit}/verification", verify),
        web.delete("/api/units/{unit}/verification", withdraw),
        web.post("/api/units/{unit}/probes", probes),
    ]


async def read_json(request: web.Request) -> dict[str, Any]:
    """The object in the body. Raises what ``read_object`` does, and HTTPUnsupportedMediaType."""
    # A JSON content type keeps a web page in an operator's browser from posting here unasked.
    if request.content_type != "application/json":
        raise web.HTTPUnsupportedMediaType(text='send {"reason": "..."} as application/json\n')
    return await read_object(request)


def why(content: dict[str, Any]) -> str:
    """The reason, and who says so. Raises HTTPBadRequest without a reason."""
    reason = content.get("reason")
    if not isinstance(reason, str) or not reason.strip():
        raise web.HTTPBadRequest(text='"reason" must say why; it is kept for the record\n')
    by = content.get("by")
    if not isinstance(by, str):
        by = ""
    who = on_one_line(by)[:MAX_NAME]
    return on_one_line(reason)[:MAX_REASON] + (f" (by {who})" if who else "")


def _release(services: Services, unit: str, content: dict[str, Any]) -> str:
    return _name(content, "release") or services.ledger.release(unit)


def _name(content: dict[str, Any], key: str) -> str:
    value = content.get(key, "")
    if value and not safe(value):
        raise web.HTTPBadRequest(text=f'"{key}" must be a name as in /api/units\n')
    return safe(value)


def _class(services: Services, content: dict[str, Any]) -> str:
    name = _name(content, "class")
    if name and name not in services.contexts.names:
        known = ", ".join(services.contexts.names)
        raise web.HTTPBadRequest(text=f'"class" must be one of {known}\n')
    return name or ALL


def _number(content: dict[str, Any], key: str) -> float | None:
    value = content.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise web.HTTPBadRequest(text=f'"{key}" must be a number\n')
    return float(value)


def _count(content: dict[str, Any], key: str) -> int:
    value = content.get(key, 0)
    if type(value) is not int or not 0 <= value < 1_000_000:
        raise web.HTTPBadRequest(text=f'"{key}" must be a number of probes\n')
    return value


def _until(content: dict[str, Any], now: float) -> float:
    until, seconds = _number(content, "until"), _number(content, "seconds")
    if (until is None) == (seconds is None):
        raise web.HTTPBadRequest(
            text='say how long: "until" (Unix time) or "seconds" (from now), one of them\n'
        )
    end = until if until is not None else now + (seconds or 0.0)
    if not now < end <= now + LONGEST:
        raise web.HTTPBadRequest(text="the end must lie ahead, within 400 days\n")
    return end


def _findings(content: dict[str, Any]) -> tuple[Finding, ...]:
    """What failed probes showed: {"detector", "reason", "value", "threshold", "shape"}."""
    given = content.get("findings", [])
    problem = web.HTTPBadRequest(text='"findings" must be a list as evidence has it\n')
    if not isinstance(given, list):
        raise problem
    found: list[Finding] = []
    for each in given[:MAX_FINDINGS]:
        if not isinstance(each, dict) or not all(
            isinstance(each.get(key), str) and each[key] for key in ("detector", "reason")
        ):
            raise problem
        shape = each.get("shape", "")
        found.append(
            Finding(
                on_one_line(each["detector"])[:MAX_TEXT],
                on_one_line(each["reason"])[:MAX_TEXT],
                _number(each, "value") or 0.0,
                _number(each, "threshold") or 0.0,
                shape=on_one_line(shape)[:MAX_TEXT] if isinstance(shape, str) else "",
            )
        )
    return tuple(found)
