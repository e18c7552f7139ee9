"""What several hints add up to. One weak signal is suspect; two that have no cause in common but
a broken engine are more."""

from __future__ import annotations

from collections.abc import Sequence

from extproc.detect.finding import Finding, Weight

NAME = "combination"

_GARBLE = frozenset({"salad", "script_mixing", "decoding", "stutter", "special_tokens"})
"""Each reads another side of a text; healthy text that trips two of them has not been seen."""


def two_hints_fit(findings: Sequence[Finding]) -> Finding | None:
    """A proof made of hints of two different kinds of garble, None when they are not there."""
    kinds = {f.detector for f in findings if f.weight is Weight.HINT and f.detector in _GARBLE}
    if len(kinds) < 2:
        return None
    return Finding(NAME, "garble", len(kinds), 2, Weight.PROOF, " and ".join(sorted(kinds)))
