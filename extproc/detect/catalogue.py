"""The one list of detectors. What is not here does not judge."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

from extproc.detect.decoding import Decoding
from extproc.detect.deltas import SameDelta
from extproc.detect.detector import DeltaDetector, EventDetector, Setting, TextDetector
from extproc.detect.emptiness import Emptiness
from extproc.detect.integrity import Integrity
from extproc.detect.logprobs import LogprobAnomaly
from extproc.detect.nonfinite import NonFiniteValues
from extproc.detect.recurrence import Recurrence
from extproc.detect.repetition import Repetition
from extproc.detect.salad import Salad
from extproc.detect.scores import ScoreAnomaly
from extproc.detect.script_mixing import ScriptMixing
from extproc.detect.soup import FunctionWordSoup, NoOrder, SymbolSoup
from extproc.detect.special_tokens import SpecialTokens
from extproc.detect.structure import Structure
from extproc.detect.stutter import Stutter
from extproc.detect.tokenizer_marks import TokenizerMarks
from extproc.detect.vectors import Vectors
from extproc.detect.welds import Welds
from extproc.detect.whitespace import WhitespaceRunaway

TEXT_DETECTORS: dict[str, type[Any]] = {
    kind.name: kind
    for kind in (
        Repetition,
        Recurrence,
        WhitespaceRunaway,
        Decoding,
        ScriptMixing,
        SpecialTokens,
        TokenizerMarks,
        Stutter,
        Welds,
        FunctionWordSoup,
        SymbolSoup,
        NoOrder,
        Salad,
    )
}
"""Run once for each channel of each choice, on blocks of text."""

DELTA_DETECTORS: dict[str, type[Any]] = {SameDelta.name: SameDelta}
"""Run once for each channel of each choice, on the deltas as they came."""

EVENT_DETECTORS: dict[str, type[Any]] = {
    kind.name: kind
    for kind in (
        Emptiness,
        NonFiniteValues,
        LogprobAnomaly,
        Vectors,
        ScoreAnomaly,
        Structure,
        Integrity,
    )
}
"""Run once for each response."""

ALL = {**TEXT_DETECTORS, **DELTA_DETECTORS, **EVENT_DETECTORS}


@dataclass(frozen=True, slots=True)
class Entry:
    """How a detector is shown: ``semantic-extproc detectors``."""

    name: str
    reads: str
    """``text``, ``deltas`` or ``events``."""
    about: str
    """One line."""
    reasons: str
    """The named reasons, and the source of the thresholds."""
    thresholds: dict[str, object]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The detectors that are on, as factories."""

    text: tuple[Callable[[Setting], TextDetector], ...]
    deltas: tuple[Callable[[Setting], DeltaDetector], ...]
    event: tuple[Callable[[Setting], EventDetector], ...]

    def text_detectors(self, setting: Setting) -> list[TextDetector]:
        """Fresh ones for a channel."""
        return [make(setting) for make in self.text]

    def delta_detectors(self, setting: Setting) -> list[DeltaDetector]:
        """Fresh ones for a channel."""
        return [make(setting) for make in self.deltas]

    def event_detectors(self, setting: Setting) -> list[EventDetector]:
        """Fresh ones for a response."""
        return [make(setting) for make in self.event]


def default_catalogue(off: Iterable[str] = ()) -> Catalogue:
    """All detectors but those named in ``off``. Raises ValueError for an unknown name."""
    off = frozenset(off)
    if unknown := sorted(off - ALL.keys()):
        raise ValueError(f"no such detector: {', '.join(unknown)}; known: {', '.join(ALL)}")

    def on(kinds: dict[str, type[Any]]) -> tuple[Callable[[Setting], Any], ...]:
        return tuple(kind.create for name, kind in kinds.items() if name not in off)

    return Catalogue(on(TEXT_DETECTORS), on(DELTA_DETECTORS), on(EVENT_DETECTORS))


def entries() -> list[Entry]:
    """Every detector with its reasons and default thresholds."""
    out = []
    for kinds, reads in (
        (TEXT_DETECTORS, "text"),
        (DELTA_DETECTORS, "deltas"),
        (EVENT_DETECTORS, "events"),
    ):
        for name, kind in kinds.items():
            about = (inspect.getmodule(kind).__doc__ or "").strip().split("\n\n")[0]
            reasons = inspect.cleandoc(kind.__doc__ or "")
            out.append(Entry(name, reads, about, reasons, _thresholds(kind)))
    return out


def reason_names(entry: Entry) -> list[str]:
    """The names that a detector's description puts in double backquotes, in order."""
    return list(dict.fromkeys(re.findall(r"``([a-z0-9_*]+)``", entry.reasons)))


def _thresholds(kind: type) -> dict[str, object]:
    out: dict[str, object] = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        value = parameter.default
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            out[name] = value
        elif is_dataclass(value) and not isinstance(value, type) and name == "limits":
            out.update(asdict(value))
    return out
