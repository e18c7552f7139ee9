"""One xDS stream of one Envoy: the incremental protocol. No I/O.

Rules (xDS protocol, "Incremental xDS"):
- A request changes what is subscribed to; a name that is subscribed to, also once more, is answered
  with its resource, and one that does not exist here as removed.
- An Envoy that comes back says which versions it has kept: those are not sent again.
- Nonces pair answers with refusals and nothing else: a request counts whatever its nonce.
- What was refused is not sent again: the next change is.
- A first request that names nothing, and the name ``*``, ask for all there is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from envoy.service.discovery.v3 import discovery_pb2

from extproc.signals.xds.session import Session
from extproc.signals.xds.world import Resources, Snapshot

ALL = "*"


@dataclass(slots=True)
class _Subscription:
    names: set[str] = field(default_factory=set)  # ALL among them: all there are
    sent: dict[str, str] = field(default_factory=dict)  # name -> digest that Envoy has


class DeltaSession(Session[_Subscription]):
    """A stream of ``DeltaDiscoveryRequest`` and ``DeltaDiscoveryResponse``."""

    def request(self, request: Any, snapshot: Snapshot) -> Any | None:
        """Takes a request; the response that it calls for, if one."""
        kind = self._kind(request, snapshot)
        if not kind:
            return None
        resources = snapshot[kind]
        if request.HasField("error_detail"):
            self._on_refusal(kind, request.error_detail.message)
        asked = list(request.resource_names_subscribe)
        known = self._subscriptions.get(kind)
        first = known is None
        if known is None:
            known = self._subscriptions[kind] = _Subscription()
            known.sent = dict(request.initial_resource_versions)
            asked = asked or [ALL]
        fresh = [name for name in asked if name != ALL and name not in known.names]
        known.names.update(asked)
        if not first:
            for name in asked:
                known.sent.pop(name, None)  # asked for once more: it was forgotten there
        for name in request.resource_names_unsubscribe:
            known.names.discard(name)
            if ALL not in known.names:
                known.sent.pop(name, None)
        missing = [name for name in asked if name != ALL and name not in resources.by_name]
        if unknown := sorted(set(missing) & set(fresh)):
            self._on_unknown(kind, unknown)
        # An answer to the first request is due even when there is nothing to say.
        return self._response(kind, known, resources, missing, first or bool(asked))

    def changed(self, snapshot: Snapshot) -> list[Any]:
        """The responses that a new snapshot calls for: none where nothing changed for this
        Envoy."""
        found = [
            self._response(kind, known, snapshot[kind], [], False)
            for kind, known in self._subscriptions.items()
        ]
        return [response for response in found if response is not None]

    def _response(
        self, kind: str, known: _Subscription, resources: Resources, missing: list[str], due: bool
    ) -> Any | None:
        wanted = {
            name: resource
            for name, resource in resources.by_name.items()
            if ALL in known.names or name in known.names
        }
        news = [name for name, each in wanted.items() if known.sent.get(name) != each.digest]
        gone = sorted({*missing, *(name for name in known.sent if name not in resources.by_name)})
        if not (news or gone or due):
            return None
        response = discovery_pb2.DeltaDiscoveryResponse(
            system_version_info=resources.version,
            type_url=kind,
            removed_resources=gone,
        )
        for name in news:
            each = wanted[name]
            response.resources.add(name=name, version=each.digest, resource=each.content)
            known.sent[name] = each.digest
        for name in gone:
            known.sent.pop(name, None)
        return self._numbered(response)
