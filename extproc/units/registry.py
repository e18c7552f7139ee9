"""Who answered: from Envoy's metadata first, then from the configuration's cluster map."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from extproc.units.identity import UNKNOWN, Serving, Unit, safe


class Registry:
    """The units of one configuration, and those met in traffic that it does not name.

    ``clusters`` maps Envoy cluster names to unit ids. Raises ValueError when a name maps twice or
    a fallback does not exist.
    """

    MAX_DISCOVERED = 256
    """Units learnt from traffic; metadata that invents more is counted as ``unknown``."""

    def __init__(
        self, units: Iterable[Unit] = (), clusters: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._units: dict[str, Unit] = {}
        for unit in units:
            if unit.id in self._units:
                raise ValueError(f"two units have the id {unit.id!r}")
            self._units[unit.id] = unit
        for unit in self._units.values():
            for other in unit.fallback:
                if other not in self._units:
                    raise ValueError(f"unit {unit.id!r} falls back to {other!r}, which is no unit")
                if other == unit.id:
                    raise ValueError(f"unit {unit.id!r} falls back to itself")
        for cluster, owner in clusters.items():
            if owner not in self._units:
                raise ValueError(f"cluster {cluster!r} belongs to {owner!r}, which is no unit")
        self._clusters = dict(clusters)
        self._discovered = 0

    def become(self, other: Registry) -> None:
        """Knows from now on what ``other`` knows: whoever holds this one need not be told."""
        self._units, self._clusters = dict(other._units), dict(other._clusters)
        self._discovered = other._discovered

    def __iter__(self) -> Iterator[Unit]:
        return iter(self._units.values())

    def get(self, unit: str) -> Unit | None:
        """The unit of that id."""
        return self._units.get(unit)

    def resolve(
        self,
        cluster: str,
        cluster_metadata: Mapping[str, object],
        host_metadata: Mapping[str, object],
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> Serving:
        """Who answered, given both metadata of namespace ``semantic.extproc``. ``headers``: what
        trusted response headers say under ``unit`` and ``release``, heard where nothing else does.

        A unit that no configuration names is taken in under the id that Envoy gives it. The host's
        own release wins over its cluster's, which wins over the configuration's: during a rollout
        the hosts of one cluster differ.
        """
        unit = (
            safe(cluster_metadata.get("unit"))
            or safe(host_metadata.get("unit"))
            or self._clusters.get(cluster, "")
            or safe(headers.get("unit"))
        )
        known = self._units.get(unit) if unit else None
        if known is None:
            known = self._discover(unit)
        release = (
            safe(host_metadata.get("release"))
            or safe(cluster_metadata.get("release"))
            or known.release
            or safe(headers.get("release"))
        )
        return Serving(known.id, release, safe(host_metadata.get("host")))

    def _discover(self, unit: str) -> Unit:
        if not unit or self._discovered >= self.MAX_DISCOVERED:
            unit = UNKNOWN
        found = self._units.get(unit)
        if found is None:
            found = self._units[unit] = Unit(unit)
            self._discovered += 1
        return found
