"""Who may change something over the admin API.

Reading needs no token: Envoy, Prometheus and rollout controllers read. What changes a unit's state
needs one wherever the port can be reached from another machine, and on loopback a name that only
this machine's own programs use, so that no web page in an operator's browser can get there under a
name of its own (DNS rebinding).
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Awaitable, Callable
from ipaddress import ip_address

from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_SAFE = frozenset({hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_OPTIONS})
_HOST = re.compile(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?")
_WRITES_BELOW = "/api/"
"""The gates' POSTs only ask; what changes a state lies here."""


def guard(loopback: bool, token: Callable[[], bytes] | None) -> Middleware:
    """A middleware. ``loopback``: only this machine can reach the port. ``token`` is called for
    each write, so that it may change while we run; None: there is none."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method not in _SAFE and request.path.startswith(_WRITES_BELOW):
            if token is not None:
                _check_token(request, token())
            elif not loopback:
                raise web.HTTPForbidden(
                    text="this sidecar can be reached from other machines, and has no token for "
                    "changes: set admin.token_env or admin.token_file\n"
                )
            else:
                _check_local(request)
        return await handler(request)

    return check


def is_loopback(address: str) -> bool:
    """Whether nobody but this machine reaches "host:port"; ":port" is every interface."""
    return _local(address.rpartition(":")[0])


def _check_token(request: web.Request, token: bytes) -> None:
    scheme, _, given = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    right = hmac.compare_digest(given.strip().encode(errors="surrogateescape"), token)
    if scheme.lower() != "bearer" or not right:
        raise web.HTTPUnauthorized(
            text="changes need this sidecar's token, as Authorization: Bearer ...\n",
            headers={hdrs.WWW_AUTHENTICATE: "Bearer"},
        )


def _check_local(request: web.Request) -> None:
    name = _HOST.fullmatch(request.host)
    origins = request.headers.getall(hdrs.ORIGIN, [])
    if not (name and _local(name[1])) or any(
        origin.partition("://")[2] != request.host for origin in origins
    ):
        raise web.HTTPForbidden(
            text="without a token, changes are taken only under a loopback name (127.0.0.1, "
            "localhost) and from no other origin\n"
        )


def _local(host: str) -> bool:
    host = host.strip("[]")
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
