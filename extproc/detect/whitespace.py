"""Whitespace that does not end: a runaway of guided decoding, or tokens that decode to blanks."""

from __future__ import annotations

from dataclasses import dataclass

from extproc.detect.finding import Finding, Weight


@dataclass(frozen=True, slots=True)
class WhitespaceLimits:
    """Characters of blank tail. Healthy code and tables indent by tens, not by hundreds.

    Source: reports of 16 000 blank tokens under guided JSON; the longest blank run in the healthy
    exchanges of tests/corpus is below a third of ``mid``.
    """

    mid: int = 320
    end: int = 160


class WhitespaceRunaway:
    """Judges one channel of one choice."""

    __slots__ = ("_blank", "_done", "_limits")

    name = "whitespace"

    def __init__(self, limits: WhitespaceLimits = WhitespaceLimits()) -> None:
        self._limits = limits
        self._blank = 0
        self._done = False

    def feed(self, text: str, tokens: int) -> Finding | None:
        kept = len(text.rstrip())
        self._blank = len(text) - kept + (0 if kept else self._blank)
        return self._judge("runaway", self._limits.mid)

    def finish(self, reason: str) -> Finding | None:
        return self._judge("tail", self._limits.end)

    def _judge(self, reason: str, limit: int) -> Finding | None:
        if self._done or self._blank < limit:
            return None
        self._done = True
        return Finding(
            self.name, reason, self._blank, limit, Weight.PROOF, f"{self._blank} blank characters"
        )
