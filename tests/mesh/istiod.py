"""Applies EnvoyFilters to what istiod sends to a gateway, in istiod's own order and manner.

Which operations act on what is read from istiod's source (``networking/core/envoyfilter``): adds
append, merges go into every object that all conditions match, an operation it does not know for a
kind does nothing. An operation that is not needed here is an error, not a silent pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.mesh.protos import Cluster, Listener, Route, RouteConfiguration, merge, parse, plain


class Pushed:
    """Listeners, clusters and routes of one proxy. ``tree``: lists under these names."""

    def __init__(self, tree: dict[str, Any], context: str = "GATEWAY") -> None:
        self.context = context
        self.listeners = [parse(Listener, entry) for entry in tree["listeners"]]
        self.clusters = [parse(Cluster, entry) for entry in tree["clusters"]]
        self.routes = [parse(RouteConfiguration, entry) for entry in tree["routes"]]

    def apply(self, manifest: dict[str, Any]) -> None:
        """Raises ``AssertionError`` if a patch meets nothing."""
        patches = manifest["spec"]["configPatches"]
        # istiod merges into its own objects first and appends the added ones afterwards.
        for patch in sorted(patches, key=lambda patch: patch["patch"]["operation"] == "ADD"):
            if patch["match"].get("context", "ANY") not in ("ANY", self.context):
                continue
            assert self._apply(patch), f"nothing matches {patch['match']}"

    def _apply(self, patch: dict[str, Any]) -> bool:
        operation, value = patch["patch"]["operation"], patch["patch"]["value"]
        match (patch["applyTo"], operation):
            case ("LISTENER", "ADD"):
                self.listeners.append(parse(Listener, value))
                return True
            case ("CLUSTER", "ADD"):
                self.clusters.append(parse(Cluster, value))
                return True
            case ("CLUSTER", "MERGE"):
                name = patch["match"]["cluster"]["name"]
                found = [entry for entry in self.clusters if entry.name == name]
                kind = Cluster
            case ("HTTP_ROUTE", "MERGE"):
                found = list(self._routes(patch["match"]["routeConfiguration"]))
                kind = Route
            case other:
                raise NotImplementedError(other)
        for entry in found:
            merge(entry, parse(kind, value))
        return bool(found)

    def _routes(self, match: dict[str, Any]) -> Iterator[Any]:
        assert set(match) <= {"vhost"}
        host = match.get("vhost", {})
        for configuration in self.routes:
            for virtual_host in configuration.virtual_hosts:
                if host.get("name") not in (None, virtual_host.name):
                    continue
                for route in virtual_host.routes:
                    if host.get("route", {}).get("name") in (None, route.name):
                        yield route

    def trees(self) -> dict[str, Any]:
        """The same lists again."""
        return {
            "listeners": [plain(entry) for entry in self.listeners],
            "clusters": [plain(entry) for entry in self.clusters],
            "routes": [plain(entry) for entry in self.routes],
        }
