"""The one list of detectors. What is not here does not judge."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from extproc.detect.combination import NAME as COMBINATION
from extproc.detect.decoding import Decoding
from extproc.detect.deltas import SameDelta
from extproc.detect.detector import DeltaDetector, EventDetector, Setting, TextDetector
from extproc.detect.emptiness import Emptiness
from extproc.detect.integrity import Integrity
from extproc.detect.logprobs import LogprobAnomaly
from extproc.detect.nonfinite import NonFiniteValues
from extproc.detect.policy import DEFAULT_POLICY, Policy
from extproc.detect.recurrence import Recurrence
from extproc.detect.repetition import Repetition
from extproc.detect.salad import Salad
from extproc.detect.scores import ScoreAnomaly
from extproc.detect.script_mixing import ScriptMixing
from extproc.detect.soup import FunctionWordSoup, NoOrder, SymbolSoup
from extproc.detect.special_tokens import SpecialTokens
from extproc.detect.structure import Structure
from extproc.detect.stutter import Stutter
from extproc.detect.thresholds import paths, thresholds, with_thresholds
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
    policy: Policy = DEFAULT_POLICY
    """What their findings count."""

    def text_detectors(self, setting: Setting) -> list[TextDetector]:
        """Fresh ones for a channel."""
        return [make(setting) for make in self.text]

    def delta_detectors(self, setting: Setting) -> list[DeltaDetector]:
        """Fresh ones for a channel."""
        return [make(setting) for make in self.deltas]

    def event_detectors(self, setting: Setting) -> list[EventDetector]:
        """Fresh ones for a response."""
        return [make(setting) for make in self.event]


def make_catalogue(policy: Policy = DEFAULT_POLICY) -> Catalogue:
    """The detectors as a policy wants them. Raises ValueError for a name that nothing has."""
    if problems := policy_problems(policy):
        raise ValueError("; ".join(problems))
    changed: dict[str, dict[str, float]] = {}
    for path, value in policy.thresholds.items():
        detector, _, rest = path.partition(".")
        changed.setdefault(detector, {})[rest] = value

    def on(kinds: dict[str, type[Any]]) -> tuple[Callable[[Setting], Any], ...]:
        return tuple(
            with_thresholds(kind, changed.get(name, {})).create
            for name, kind in kinds.items()
            if name not in policy.off
        )

    return Catalogue(on(TEXT_DETECTORS), on(DELTA_DETECTORS), on(EVENT_DETECTORS), policy)


def policy_problems(policy: Policy) -> list[str]:
    """What a policy names that is not there, in words; empty when all is."""
    problems = []
    if unknown := sorted(policy.off - ALL.keys()):
        problems.append(f"no such detector: {', '.join(unknown)}; known: {', '.join(ALL)}")
    named = policy.hints | policy.ordinary
    # Descriptions are read only for a policy that names reasons: most name none.
    reasons = {entry.name: reason_names(entry) for entry in entries()} if named else {}
    reasons[COMBINATION] = ["garble"]
    for name in sorted(named):
        detector, _, reason = name.partition(".")
        if detector not in reasons:
            problems.append(f"no such detector: {detector}; known: {', '.join(reasons)}")
        elif reason and reason not in reasons[detector]:
            known = ", ".join(reasons[detector])
            problems.append(f"{detector} has no reason {reason}; known: {known}")
    for path in sorted(policy.thresholds):
        detector, _, rest = path.partition(".")
        if detector not in ALL:
            problems.append(f"no such detector: {detector}; known: {', '.join(ALL)}")
        elif rest not in (known_paths := paths(ALL[detector])):
            known = ", ".join(get_close_matches(rest, known_paths, 5, 0.4) or known_paths)
            problems.append(
                f"{detector} has no threshold {rest or '(unnamed)'}; there are: {known or 'none'}"
            )
    return problems


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
            out.append(Entry(name, reads, about, reasons, thresholds(kind)))
    return out


def reason_names(entry: Entry) -> list[str]:
    """The names that a detector's description puts in double backquotes, in order."""
    return list(dict.fromkeys(re.findall(r"``([a-z0-9_*]+)``", entry.reasons)))
