"""The one list of detectors. What is not here does not judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from extproc.detect.detector import EventDetector, TextDetector
from extproc.detect.emptiness import Emptiness
from extproc.detect.nonfinite import NonFiniteValues
from extproc.detect.repetition import Repetition
from extproc.detect.transport import Transport
from extproc.detect.whitespace import WhitespaceRunaway

TEXT_DETECTORS: dict[str, Callable[[], TextDetector]] = {
    Repetition.name: Repetition,
    WhitespaceRunaway.name: WhitespaceRunaway,
}
"""Run once for each channel of each choice."""

EVENT_DETECTORS: dict[str, Callable[[], EventDetector]] = {
    Emptiness.name: Emptiness,
    NonFiniteValues.name: NonFiniteValues,
    Transport.name: Transport,
}
"""Run once for each response."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The detectors that are on, as factories."""

    text: tuple[Callable[[], TextDetector], ...]
    event: tuple[Callable[[], EventDetector], ...]

    def text_detectors(self) -> list[TextDetector]:
        """Fresh ones for a channel."""
        return [make() for make in self.text]

    def event_detectors(self) -> list[EventDetector]:
        """Fresh ones for a response."""
        return [make() for make in self.event]


def default_catalogue(off: Iterable[str] = ()) -> Catalogue:
    """All detectors but those named in ``off``. Raises ValueError for an unknown name."""
    off = frozenset(off)
    if unknown := sorted(off - TEXT_DETECTORS.keys() - EVENT_DETECTORS.keys()):
        known = ", ".join([*TEXT_DETECTORS, *EVENT_DETECTORS])
        raise ValueError(f"no such detector: {', '.join(unknown)}; known: {known}")
    return Catalogue(
        tuple(make for name, make in TEXT_DETECTORS.items() if name not in off),
        tuple(make for name, make in EVENT_DETECTORS.items() if name not in off),
    )
