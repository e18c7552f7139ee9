"""What detectors say, and what it adds up to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Weight(StrEnum):
    """What a finding proves by itself."""

    PROOF = "proof"
    """Healthy output cannot do this: the response is corrupt."""

    HINT = "hint"
    """Seen in healthy output too: alone it makes the response suspect."""

    NOTE = "note"
    """Worth recording, says nothing about the engine's output (a malformed encoding, a bound)."""


class Kind(StrEnum):
    """The verdict on one response."""

    CLEAN = "clean"
    SUSPECT = "suspect"
    CORRUPT = "corrupt"
    UNCHECKED = "unchecked"


class Finding(NamedTuple):
    """One detector's named reason, with what it measured and the limit that was passed.

    ``shape`` describes the sample without quoting it: a single symbol may be shown
    (``"!" x 31``), generated words never are.
    """

    detector: str
    reason: str
    value: float
    threshold: float
    weight: Weight = Weight.PROOF
    shape: str = ""

    @property
    def name(self) -> str:
        """``detector.reason``, the form used in metrics and headers."""
        return f"{self.detector}.{self.reason}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of one response.

    ``first_token`` counts tokens (streamed deltas) read when the verdict became corrupt; it is
    None unless corrupt, and 0 where the wire does not show single tokens.
    """

    kind: Kind
    findings: tuple[Finding, ...] = ()
    first_token: int | None = None


def shape_of(unit: str, copies: float) -> str:
    """How a repetition may be shown: a symbol as itself, anything longer by its length alone."""
    if len(unit) == 1 and not unit.isalnum():
        return (
            f'"{unit}" x {copies:.0f}'
            if unit.isprintable()
            else f"U+{ord(unit):04X} x {copies:.0f}"
        )
    return f"{len(unit)} characters x {copies:.1f}"
