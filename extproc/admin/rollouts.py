"""What rollout controllers ask: gates in the shape of Flagger's webhooks, and one flat JSON object
for Argo Rollouts' web metric.

Flagger posts {"name", "namespace", "phase", "metadata"} and goes by the status: 2xx to advance
(or, for a rollback hook, to roll back), anything else to wait. Argo takes one value, or the whole
object, out of a JSON answer and compares it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web

from extproc.admin.body import read_object
from extproc.health import State

DIGITS = 12
"""Of a number of responses, at most."""

Describe = Callable[[web.Request], dict[str, Any]]
"""The unit that a request names, as /api/units/{unit} shows it. Raises HTTPNotFound."""


def rollout_routes(describe: Describe) -> list[web.RouteDef]:
    """The routes, to be added to the admin application."""

    async def rollout(request: web.Request) -> web.Response:
        return web.json_response(measure(describe(request), request.query.get("release", "")))

    async def advance(request: web.Request) -> web.Response:
        wanted = await _metadata(request)
        found = measure(describe(request), wanted.get("release", ""))
        reason = _why_not(found, wanted)
        if reason:
            return web.Response(status=403, text=f"unit {found['unit']}: {reason}\n")
        return web.Response(text=f"unit {found['unit']} passes\n")

    async def roll_back(request: web.Request) -> web.Response:
        await _metadata(request)
        found = measure(describe(request))
        if found["quarantine"]:
            return web.Response(text=f"unit {found['unit']} is quarantined: roll it back\n")
        return web.Response(
            status=403, text=f"unit {found['unit']} is in {found['state']}: no reason to go back\n"
        )

    return [
        web.get("/api/units/{unit}/rollout", rollout),
        web.post("/gates/flagger/{unit}", advance),
        web.post("/gates/flagger/{unit}/rollback", roll_back),
    ]


def measure(unit: dict[str, Any], release: str = "") -> dict[str, Any]:
    """A unit in one flat object. Counts and rates are of ``release``, or else of the latest.

    ``pass`` is 1 only for a release that has answered something; rates are of judged responses.
    """
    name = release or unit["release"]
    counts: dict[str, int] = unit["releases"].get(name, {})
    judged = {kind: counts.get(kind, 0) for kind in ("clean", "suspect", "corrupt")}
    total = sum(judged.values())
    state = unit["state"]
    return {
        "unit": unit["id"],
        "release": name,
        "state": state,
        "pass": int(state == State.PASS and bool(total)),
        "observe": int(state == State.OBSERVE),
        "quarantine": int(state == State.QUARANTINE),
        "held": int(unit["held_by_operator"] is not None),
        "responses": total,
        **judged,
        "unchecked": counts.get("unchecked", 0),
        "corrupt_rate": judged["corrupt"] / total if total else 0.0,
        "suspect_rate": judged["suspect"] / total if total else 0.0,
        "e_value": max((entry["e_value"] for entry in unit["classes"].values()), default=0.0),
    }


def _why_not(found: dict[str, Any], wanted: dict[str, str]) -> str:
    if found["state"] != State.PASS:
        return f"it is in {found['state']}"
    least = wanted.get("min_responses", "0")
    if not least.isdecimal() or len(least) > DIGITS:
        return "min_responses must be a number"
    if wanted.get("release") and not found["responses"]:
        return f"release {found['release']} has answered nothing yet"
    if found["responses"] < int(least):
        return f"{found['responses']} of {least} responses were judged"
    return ""


async def _metadata(request: web.Request) -> dict[str, str]:
    """``metadata`` of Flagger's payload: what the canary's YAML says there."""
    metadata = (await read_object(request)).get("metadata") or {}
    if not isinstance(metadata, dict):
        raise web.HTTPBadRequest(text='"metadata" must be an object\n')
    return {str(key): str(value) for key, value in metadata.items()}
