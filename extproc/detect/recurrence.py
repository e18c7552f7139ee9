"""Near-loops: the text goes round, but not to the letter: counters run on, phrases are reshuffled.

Looked at now and then, and at the end, on the kept tail.
"""

from __future__ import annotations

import re
from typing import ClassVar

from extproc.detect.asked import NOTHING_ASKED, Asked
from extproc.detect.detector import CUT_OFF, POLICY_ENDINGS, Setting
from extproc.detect.finding import Finding, Weight
from extproc.detect.repetition import extent
from extproc.detect.tail import Tail

_DIGITS = re.compile(r"\d+")
_JOINT = re.compile(r"[a-z]\.?[A-Z]|[a-z][.:][a-z]")
GRAM = 16


class Recurrence:
    """``counter`` (copies): with its digits masked the tail is one unit over and over, and it was
    cut off. Lists of a dozen like items are wanted now and then; these go on for scores.
    ``nothing_new`` (share): where the text was cut off, its last part consists of phrases that
    stood at least three times before, in a long text four times. Prose alone
    is judged so, and lists of words to the last cell: tables and code recur.
    ``phrases`` (share): the same within one paragraph, near by and four times: sentences that only
    rearrange what the ones before said. Lines are not judged so: lists frame their items alike.
    ``going_round`` (share, hint): the same while the text still comes, over a longer part.
    Source: 92 read generations of a small model: loops reach 0.82 to 1.0, wanted repetition 0.6.
    """

    __slots__ = ("_asked", "_done", "_hinted", "_limits", "_phrases")

    name: ClassVar[str] = "recurrence"
    stride: ClassVar[int] = 1024

    LAST = 320
    LEAST = 240
    NEAR = 400

    def __init__(
        self,
        counter: int = 24,
        counter_characters: int = 700,
        share: float = 0.8,
        share_hint: float = 0.66,
        phrases: float = 0.55,
        asked: Asked = NOTHING_ASKED,
    ) -> None:
        self._phrases = phrases
        self._limits = (counter, counter_characters, share, share_hint)
        self._asked = asked
        self._done = self._hinted = False

    @classmethod
    def create(cls, setting: Setting) -> Recurrence:
        return cls(asked=setting.asked)

    def feed(self, tail: Tail, fresh: int) -> Finding | None:
        if self._hinted or tail.whole or fresh < self.stride or tail.total < 3 * self.stride:
            return None
        share = _stale(tail.text, 2 * self.LAST, 4)
        if share < 0.95 or not _prose(tail.text[-2 * self.LAST :]):
            return None
        self._hinted = True
        return self._found("going_round", share, 0.95, Weight.HINT)

    def finish(self, tail: Tail, reason: str) -> Finding | None:
        if reason in POLICY_ENDINGS or tail.total < self.LEAST:
            return None
        cut = reason in CUT_OFF
        if not cut:
            return None
        text = tail.text
        counter, characters, share_limit, share_hint = self._limits
        copies, span, unit = _masked(text)
        if copies >= counter / 2 and span >= characters / 2 and _prose(unit):
            # The tail is all that is kept: what it is filled with may have begun long before.
            proof = copies >= counter and span >= characters
            if not self._asked.covers_cut(unit, copies, span):
                weight = Weight.PROOF if proof else Weight.HINT
                return self._found("counter", copies, counter, weight)
        last = text[-self.LAST :]
        near = _stale(text[-self.NEAR :], self.NEAR // 2, 4) if "\n" not in last else 0.0
        if (
            near >= self._phrases
            and _prose(last)
            and not self._asked.covers_cut("", 0, int(near * self.NEAR))
        ):
            return self._found("phrases", near, self._phrases, Weight.PROOF)
        # A long text has had room for its boilerplate.
        share = _stale(text, self.LAST, 4 if tail.total > 2000 else 3)
        if not _prose(last):
            # Lists and tables of words recur by their frame alone; not to the last cell.
            share_limit = share_hint = 0.93
            if not _worded(last):
                return None
        if share < share_hint or self._asked.covers_cut("", 0, int(share * self.LAST)):
            return None
        return self._found(
            "nothing_new", share, share_limit, Weight.PROOF if share >= share_limit else Weight.HINT
        )

    def _found(self, reason: str, value: float, limit: float, weight: Weight) -> Finding:
        shape = f"{value:.2f}" if value < 1 else f"{value:.0f} copies"
        return Finding(self.name, reason, round(value, 2), limit, weight, shape)


def _stale(text: str, last: int, times: int) -> float:
    """Share of the last characters' GRAMs that stand ``times`` times in the text."""
    begin = max(GRAM * times, len(text) - last)
    positions = range(begin, len(text) - GRAM + 1, 4)
    if len(positions) < 30:
        return 0.0
    seen: dict[str, bool] = {}
    stale = 0
    for at in positions:
        gram = text[at : at + GRAM]
        known = seen.get(gram)
        if known is None:
            known = seen[gram] = _count(text, gram, times)
        stale += known
    return stale / len(positions)


def _count(text: str, gram: str, times: int) -> bool:
    at = -1
    for _ in range(times):
        at = text.find(gram, at + 1)
        if at < 0:
            return False
    return True


def _masked(text: str) -> tuple[float, int, str]:
    """Copies, span and unit of the loop that the tail is once its numbers are masked."""
    masked = _DIGITS.sub("0", text)
    # A cut may leave half a number at the end: try also without it.
    size = len(masked)
    if size < 3 * GRAM or "0" not in masked[-400:]:
        return 0.0, 0, ""
    at = masked.rfind(masked[-GRAM:], 0, size - 1)
    if at < 0:
        return 0.0, 0, ""
    period = size - GRAM - at
    unit = masked[-period:]
    if period < 12 or "0" not in unit:
        return 0.0, 0, ""
    span = extent(masked, period) + period
    return span / period, span, unit


def _prose(text: str) -> bool:
    size = len(text)
    letters = sum(map(str.isalpha, text))
    code = sum(map(text.count, "{}[]()<>=;|_\\\t/#$&*+`@~%^"))
    if letters < 0.56 * size or code > 0.02 * size:
        return False
    # Names of code and columns of an index are no sentences.
    return len(_JOINT.findall(text)) <= 0.008 * size and text.count("   ") <= 0.01 * size


def _worded(text: str) -> bool:
    """Lines of words, with hardly a number or a sign of code."""
    size = len(text)
    letters = sum(map(str.isalpha, text))
    digits = sum(map(str.isdigit, text))
    code = sum(map(text.count, "{}[]()<>=;_\\\t#$&+`@~%^"))
    return letters >= 0.45 * size and digits <= 0.15 * size and code <= 0.01 * size
