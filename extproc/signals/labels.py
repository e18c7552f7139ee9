"""Labels of metrics that cannot grow without bound.

A metric lives as long as the process, and so does each combination of its labels. Units and
releases are named by metadata that others write, so each label takes so many different values and
calls the rest ``other``. Hosts and requests are no labels: evidence names them.
"""

from __future__ import annotations

from typing import Any

OTHER = "other"

UNITS = 256
"""Different units that are told apart: as many as the registry learns from traffic."""

RELEASES = 512
CLASSES = 64


class Cap:
    """The first ``most`` different values of one label keep their names."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def __call__(self, value: str) -> str:
        """``value``, or ``other`` when it came too late."""
        known = self._known
        if value in known:
            return value
        if len(known) >= self._most:
            return OTHER
        known.add(value)
        return value


class Capped:
    """A metric whose labels go through caps. ``caps`` are in the order of its labels; None leaves a
    label as it is."""

    def __init__(self, metric: Any, caps: tuple[Cap | None, ...]) -> None:
        self._metric = metric
        self._caps = caps

    def labels(self, *values: str) -> Any:
        """The child of those labels."""
        return self._metric.labels(
            *(
                cap(value) if cap is not None else value
                for cap, value in zip(self._caps, values, strict=True)
            )
        )
