"""One exchange -> its verdict, by the same way that the sidecar goes.

For everything that judges beside the message path: the ``inspect`` command, the accuracy benchmark,
active probes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from extproc.detect import Catalogue, Inspector, Kind, Verdict
from extproc.wire import (
    Event,
    Limits,
    Reader,
    RequestFacts,
    Router,
    Status,
    UnknownEncoding,
    apart,
)

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


class Inspection:
    """Reads and judges one response as it arrives.

    ``headers`` of ``exchange`` are known before its ``body``, which is not looked at here: it is
    fed. ``readable`` is False when nothing here can read the response; its verdict is then
    ``unchecked``.
    """

    def __init__(
        self,
        exchange: Exchange,
        *,
        catalogue: Catalogue | None = None,
        router: Router = _ROUTER,
        limits: Limits = OFFLINE,
    ) -> None:
        self._reader = _reader(exchange, router, limits)
        facts = RequestFacts.parse(exchange.method, exchange.path, exchange.request_body)
        self._inspector = Inspector(catalogue, facts)
        self._inspector.feed([Status(exchange.status)])

    @property
    def readable(self) -> bool:
        """Whether there is a way to read such a response."""
        return self._reader is not None

    def feed(self, piece: bytes) -> list[Event]:
        """Takes the next bytes of the body; what they say, each piece of text apart."""
        return self._take(self._reader.feed(piece)) if self._reader is not None else []

    def finish(self) -> list[Event]:
        """Takes the end of the body."""
        return self._take(self._reader.finish()) if self._reader is not None else []

    def verdict(self) -> Verdict:
        """The verdict, to be asked for once, after ``finish``."""
        return self._inspector.finish() if self._reader is not None else _UNCHECKED

    def _take(self, events: list[Event]) -> list[Event]:
        self._inspector.feed(events)
        return apart(events)


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
    inspection = Inspection(exchange, catalogue=catalogue, router=router, limits=limits)
    if not inspection.readable:
        return _UNCHECKED
    for piece in (exchange.body,) if pieces is None else pieces:
        inspection.feed(piece)
    inspection.finish()
    return inspection.verdict()


def _reader(exchange: Exchange, router: Router, limits: Limits) -> Reader | None:
    headers = exchange.headers
    route = router.route(exchange.path, headers.get("content-type", ""))
    if route is None:
        return None
    try:
        return Reader(
            route.new_dialect(), route.framing, headers.get("content-encoding", ""), limits
        )
    except UnknownEncoding:
        return None
