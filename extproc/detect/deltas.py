"""One delta over and over: the token boundaries that a stream shows.

Tokenizers merge runs (``!!!!!!!!`` is one token or two), so a healthy engine that writes a run
sends few deltas; a broken one that picks the same token id at every step sends one each.
"""

from __future__ import annotations

from typing import ClassVar

from extproc.detect.asked import NOTHING_ASKED, Asked
from extproc.detect.detector import CUT_OFF, POLICY_ENDINGS, Setting
from extproc.detect.finding import Finding, Weight, shape_of
from extproc.detect.repeated import SEPARATORS
from extproc.detect.repetition import data_before
from extproc.detect.tail import Tail

DATA = 6
"""Factor on the limit when data, not prose, stands before."""


class SameDelta:
    """``same_delta``: one text, delta after delta. ``token_per_character`` (characters): the same,
    as the token count of a whole body shows it: a run of one character at its end that took about
    a token each, where a merged run takes one for four at most. English and code take a third of
    a token a character, other scripts more: so ASCII alone is judged.

    A run that is most of the output and was cut off is judged by "start" whatever it is made of.

    Counts: "start" when nothing else came before, "mid" after other text. Digits and signs of
    their own token in many vocabularies (single digits, emoji, box drawing, CJK) need "single".
    Source: recorded NaN responses of four servers send one delta a token; healthy BPE output of
    the corpus and of natural text tokenised with o200k stays below half of each count.
    """

    __slots__ = ("_asked", "_count", "_done", "_hinted", "_last", "_limits", "_only")

    name: ClassVar[str] = "deltas"

    MOST = 0.75
    """Share of the deltas from which on a run is most of the output."""

    def __init__(
        self, start: int = 16, mid: int = 24, single: int = 80, asked: Asked = NOTHING_ASKED
    ) -> None:
        self._limits = (start, mid, single)
        self._asked = asked
        self._last = ""
        self._count = 0
        self._only = True  # nothing but this delta so far
        self._done = self._hinted = False

    @classmethod
    def create(cls, setting: Setting) -> SameDelta:
        return cls(asked=setting.asked)

    def delta(self, tail: Tail, text: str, tokens: int) -> Finding | None:
        if not tokens:
            return None
        if text != self._last:
            if self._count and self._last:
                self._only = False
            self._last = text
            self._count = 1
            return None
        self._count += 1
        if self._count < 16 or self._done or not text:
            return None
        start, mid, single = self._limits
        limit = start if self._only else mid
        if text.isspace():
            limit = 2 * mid
        elif text.strip().isdigit():
            # Dumps of zeros; where digits are merged, longer ones.
            limit = single if len(text.strip()) == 1 and self._only else 8 * single
        elif not self._only and (
            text.strip() in SEPARATORS or (len(text) == 1 and text >= "\u0e00")
        ):
            limit = single
        if self._count < limit:
            return None
        if self._count < DATA * limit and not self._only:
            before = tail.text[: -self._count * len(text)]
            if data_before(before):
                return None
        if self._asked.covers(text, self._count, self._count * len(text)):
            if self._hinted:
                return None
            self._hinted = True
            return self._finding("same_delta", text, self._count, limit, Weight.HINT)
        self._done = True
        return self._finding("same_delta", text, self._count, limit, Weight.PROOF)

    def finish(self, tail: Tail, reason: str, completion_tokens: int) -> Finding | None:
        if self._done or not tail.text or reason in POLICY_ENDINGS:
            return None
        if not tail.whole and 12 * tail.deltas > tail.total:
            return self._cut_off(tail) if reason in CUT_OFF else None
        text = tail.text
        sign = text[-1]
        run = len(text) - len(text.rstrip(sign))
        if run == len(text):
            run = tail.total
        before = tail.total - run
        start, mid, single = self._limits
        most = run >= self.MOST * tail.total
        limit = single if sign.isdigit() else start if most else mid
        if run < limit or run < 0.2 * before or not text.isascii() or sign.isspace():
            return None
        if completion_tokens < 0.33 * before + (0.5 if before else 0.8) * run:
            return None
        asked = self._asked.covers(sign, run, run)
        self._done = True
        return self._finding(
            "token_per_character", sign, run, limit, Weight.HINT if asked else Weight.PROOF
        )

    def _cut_off(self, tail: Tail) -> Finding | None:
        # Most of the output, up to the token limit: even a rule or a row of zeros ends by itself.
        text, count, limit = self._last, self._count, self._limits[0]
        if count < limit or count < self.MOST * tail.deltas or text.isspace():
            return None
        if self._asked.covers_cut(text, count, count * len(text)):
            return None
        self._done = True
        return self._finding("same_delta", text, count, limit, Weight.PROOF)

    def _finding(self, reason: str, unit: str, count: int, limit: int, weight: Weight) -> Finding:
        return Finding(self.name, reason, count, limit, weight, shape_of(unit, count))
