"""One xDS stream of one Envoy: what both protocols have in common. No I/O."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from extproc.signals.xds.world import Snapshot

S = TypeVar("S")

IDENTIFIER = "semantic-extproc"

OnRefusal = Callable[[str, str], None]
"""Told of a NACK: type URL, and Envoy's own words."""

OnUnknown = Callable[[str, list[str]], None]
"""Told of names, once each, that an Envoy waits for in vain: type URL, and the names."""


class Session(ABC, Generic[S]):
    """``only``: the one type that the stream is for, "" on an aggregated stream. ``S`` is what is
    kept of an Envoy's subscription to a type."""

    def __init__(self, only: str, on_refusal: OnRefusal, on_unknown: OnUnknown) -> None:
        self._only = only
        self._on_refusal = on_refusal
        self._on_unknown = on_unknown
        self._subscriptions: dict[str, S] = {}
        self._responses = 0

    @abstractmethod
    def request(self, request: Any, snapshot: Snapshot) -> Any | None:
        """Takes a request of the protocol; the response that it calls for, if one."""

    @abstractmethod
    def changed(self, snapshot: Snapshot) -> list[Any]:
        """The responses that a new snapshot calls for: none where nothing changed for this
        Envoy."""

    def _kind(self, request: Any, snapshot: Snapshot) -> str:
        """The type URL that a request is about, "" for one that nothing here is of: Envoy goes on
        without."""
        kind: str = request.type_url or self._only
        return kind if kind in snapshot and self._only in ("", kind) else ""

    def _numbered(self, response: Any) -> Any:
        """The response, with the next nonce and our name."""
        self._responses += 1
        response.nonce = str(self._responses)
        response.control_plane.identifier = IDENTIFIER
        return response
