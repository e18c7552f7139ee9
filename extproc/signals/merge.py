"""Metrics of several processes as those of one.

Each worker sends all its samples once a second; the authority adds them to its own when it is
asked. What a worker had counted stays in the sum after it has died; what it had counted since it
last told (a second at most) is lost with it. Exemplars go with their samples.

prometheus_client's own multiprocess mode was measured instead (bench/counting.py): it keeps that
second, but costs more than twice as much for each count on the hot path, knows no exemplars, and
does not mix with collectors of one's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.samples import Exemplar, Sample

ADDED_UP = frozenset({"semantic_extproc_open_streams", "semantic_extproc_link_queue"})
"""Gauges that make sense as a sum over processes."""

_SUMS = frozenset({"counter", "histogram"})

Key = tuple[str, tuple[tuple[str, str], ...]]
"""Name and labels of a sample."""

Row = list[Any]
"""One sample as JSON: family, name, labels, value, and [labels, value, time] of an exemplar."""


def rows(registry: CollectorRegistry) -> list[Row]:
    """What adds up of ``registry``, and is not all zero."""
    out: list[Row] = []
    for family in registry.collect():
        if not _adds_up(family) or not any(sample.value for sample in family.samples):
            continue
        for sample in family.samples:
            row: Row = [family.name, sample.name, list(sample.labels.items()), sample.value]
            if (mark := sample.exemplar) is not None:
                row.append([mark.labels, mark.value, mark.timestamp])
            out.append(row)
    return out


def _adds_up(family: Metric) -> bool:
    return family.type in _SUMS or family.name in ADDED_UP


class Part:
    """What one worker has told."""

    def __init__(self) -> None:
        self.values: dict[Key, float] = {}
        self.exemplars: dict[Key, Exemplar] = {}
        self.families: dict[Key, str] = {}

    def take(self, told: Iterable[Row]) -> None:
        """Replaces all of it. Raises ValueError or TypeError when it cannot be read."""
        fresh = Part()
        for family, name, labels, value, *more in told:
            key = str(name), tuple((str(label), str(text)) for label, text in labels)
            fresh.families[key] = str(family)
            fresh.values[key] = float(value)
            if more:
                marked, size, at = more[0]
                fresh.exemplars[key] = Exemplar(dict(marked), float(size), at)
        self.values, self.exemplars, self.families = fresh.values, fresh.exemplars, fresh.families

    def absorb(self, other: Part) -> None:
        """Adds what ``other`` counted; its gauges are gone with it."""
        for key, value in other.values.items():
            family = other.families[key]
            if family not in ADDED_UP:
                self.values[key] = self.values.get(key, 0.0) + value
                self.families[key] = family
        self.exemplars |= other.exemplars

    def forget_gauges(self) -> None:
        """The process is away: what it counted stands, what it had open does not."""
        for key in [key for key, family in self.families.items() if family in ADDED_UP]:
            del self.values[key], self.families[key]


class Merged:
    """``registry`` with what ``parts`` tell added to it. To be encoded as a registry is."""

    def __init__(self, registry: CollectorRegistry, parts: dict[str, Part]) -> None:
        self._registry = registry
        self._parts = parts

    def collect(self) -> Iterator[Metric]:
        """Every family, with sums over all processes."""
        told: dict[str, Part] = {}
        for part in self._parts.values():
            for key, name in part.families.items():
                sums = told.setdefault(name, Part())
                sums.values[key] = sums.values.get(key, 0.0) + part.values[key]
                if (mark := part.exemplars.get(key)) is not None:
                    sums.exemplars[key] = _later(sums.exemplars.get(key), mark)
        for family in self._registry.collect():
            if family.name in told:
                family.samples = list(_sum(family.samples, told[family.name]))
            yield family


def _sum(samples: Iterable[Sample], part: Part) -> Iterator[Sample]:
    rest = dict(part.values)
    for sample in samples:
        key = sample.name, tuple(sample.labels.items())
        mark = part.exemplars.get(key)
        yield sample._replace(
            value=sample.value + rest.pop(key, 0.0),
            exemplar=_later(sample.exemplar, mark) if mark is not None else sample.exemplar,
        )
    for (name, labels), value in rest.items():
        yield Sample(name, dict(labels), value, None, part.exemplars.get((name, labels)))


def _later(one: Exemplar | None, other: Exemplar) -> Exemplar:
    return other if one is None or float(other.timestamp or 0) >= float(one.timestamp or 0) else one
