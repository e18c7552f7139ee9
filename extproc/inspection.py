"""One recorded exchange -> its verdict, by the same way that the sidecar goes.

For everything that judges offline: the ``inspect`` command, the accuracy benchmark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from extproc.detect import Catalogue, Inspector, Kind, Verdict
from extproc.wire import Limits, Reader, RequestFacts, Router, Status, UnknownEncoding

OFFLINE = Limits(body=64 << 20, message=8 << 20)
"""Bounds for files: whole bodies are in memory anyway."""

_ROUTER = Router()
_UNCHECKED = Verdict(Kind.UNCHECKED)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and the response to it. ``headers`` are the response's, by lower-case name."""

    id: str | int
    path: str
    body: bytes
    method: str = "POST"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    request_body: object = None
    """The request's JSON body, decoded; None when it is not known."""


def judge(
    exchange: Exchange,
    pieces: Iterable[bytes] | None = None,
    *,
    catalogue: Catalogue | None = None,
    router: Router = _ROUTER,
    limits: Limits = OFFLINE,
) -> Verdict:
    """The verdict on a response; ``unchecked`` when nothing here can read it.

    ``pieces`` are the body as it arrives; the whole of it at once by default. ``catalogue`` is
    what a unit would have; the default without it.
    """
    headers = exchange.headers
    route = router.route(exchange.path, headers.get("content-type", ""))
    if route is None:
        return _UNCHECKED
    try:
        reader = Reader(
            route.new_dialect(), route.framing, headers.get("content-encoding", ""), limits
        )
    except UnknownEncoding:
        return _UNCHECKED
    facts = RequestFacts.parse(exchange.method, exchange.path, exchange.request_body)
    inspector = Inspector(catalogue, facts)
    inspector.feed([Status(exchange.status)])
    for piece in (exchange.body,) if pieces is None else pieces:
        inspector.feed(reader.feed(piece))
    inspector.feed(reader.finish())
    return inspector.finish()
