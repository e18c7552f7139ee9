"""One xDS stream of one Envoy: the state-of-the-world protocol. No I/O.

Rules (xDS protocol, "ACK, NACK and resource type instance version"):
- The first request for a type is always answered, whatever version it names: what an Envoy kept
  from another server proves nothing.
- A request whose nonce is not that of the response sent last speaks of the past, and is passed
  over; its sender will answer the newer response.
- ACK and NACK alike are not answered. What was refused is not sent again: the next change is.
- A request that adds names is answered with all of its names, as far as they exist here; one that
  only drops names is not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from envoy.service.discovery.v3 import discovery_pb2

from extproc.signals.xds.session import Session
from extproc.signals.xds.world import Resources, Snapshot


@dataclass(slots=True)
class _Subscription:
    names: frozenset[str] | None  # None: all there are, which an empty first request asks for
    nonce: str = ""
    sent: dict[str, str] = field(default_factory=dict)  # name -> digest


class SotwSession(Session[_Subscription]):
    """A stream of ``DiscoveryRequest`` and ``DiscoveryResponse``."""

    def request(self, request: Any, snapshot: Snapshot) -> Any | None:
        """Takes a request; the response that it calls for, if one."""
        kind = self._kind(request, snapshot)
        if not kind:
            return None
        names = frozenset(request.resource_names)
        known = self._subscriptions.get(kind)
        if known is None:
            known = self._subscriptions[kind] = _Subscription(names or None)
            self._tell_unknown(kind, names, snapshot[kind])
            return self._response(kind, known, snapshot[kind])
        if request.response_nonce and request.response_nonce != known.nonce:
            return None
        if request.HasField("error_detail"):
            self._on_refusal(kind, request.error_detail.message)
        if known.names is None and not names:
            return None
        added = names - (known.names or frozenset())
        self._tell_unknown(kind, added, snapshot[kind])
        known.names = names
        known.sent = {name: digest for name, digest in known.sent.items() if name in names}
        return self._response(kind, known, snapshot[kind]) if added else None

    def changed(self, snapshot: Snapshot) -> list[Any]:
        """The responses that a new snapshot calls for: none where nothing changed for this
        Envoy."""
        return [
            self._response(kind, known, snapshot[kind])
            for kind, known in self._subscriptions.items()
            if _wanted(known, snapshot[kind]) != known.sent
        ]

    def _tell_unknown(self, kind: str, names: frozenset[str], resources: Resources) -> None:
        if unknown := names - resources.by_name.keys():
            self._on_unknown(kind, sorted(unknown))

    def _response(self, kind: str, known: _Subscription, resources: Resources) -> Any:
        known.sent = _wanted(known, resources)
        response = discovery_pb2.DiscoveryResponse(
            version_info=resources.version,
            type_url=kind,
            resources=[resources.by_name[name].content for name in known.sent],
        )
        self._numbered(response)
        known.nonce = response.nonce
        return response


def _wanted(known: _Subscription, resources: Resources) -> dict[str, str]:
    return {
        name: resource.digest
        for name, resource in resources.by_name.items()
        if known.names is None or name in known.names
    }
