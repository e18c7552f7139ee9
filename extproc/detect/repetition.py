"""Loops: the end of the text is one unit over and over.

What tells a loop from a separator, a table or a list is that the *tail* is periodic and does not
stop. So only the periodic suffix is judged: its unit, how many copies, how many characters. While
the text still comes the limits are strict; where it was cut off they are lower, because a loop
runs into the token limit and a wanted repetition stops by itself.

Method: every block, the distance to the previous occurrence of the last GRAM characters is the
only period the suffix can have. Slice comparisons then say how far the suffix already had it, and
a known period is extended by one comparison a block. Amortised O(1) a character.
"""

from __future__ import annotations

from typing import ClassVar

from extproc.detect.asked import NOTHING_ASKED, Asked
from extproc.detect.detector import CUT_OFF, POLICY_ENDINGS, Setting
from extproc.detect.finding import Finding, Weight, shape_of
from extproc.detect.repeated import (
    CJK,
    DEFAULT_LIMITS,
    ROUND,
    Limit,
    RepetitionLimits,
    Unit,
    unit_kind,
)
from extproc.detect.tail import Tail
from extproc.wire import Channel

GRAM = 8

_CJK_SHARE, _CJK_COPIES = 0.4, 10
"""For units of whose characters each says about as much as a word's half."""


class Repetition:
    """``period``: a loop while the text comes. ``unfinished``: a loop that the end cut off.

    A whole body is judged at its end: there ``period`` needs more when it ended by itself.
    Source: RepetitionLimits.
    """

    __slots__ = (
        "_argument",
        "_asked",
        "_done",
        "_hinted",
        "_kept",
        "_kind",
        "_limits",
        "_past",
        "_period",
        "_run",
        "_text",
        "_unit",
        "_unit_period",
    )

    name: ClassVar[str] = "repetition"
    stride: ClassVar[int] = 16

    FEW = 3
    """Copies a delta, from which on the deltas are no tokens: one that buffers may be between."""

    WHOLE = 0.9
    """Share of the output under the period from which the loop is the whole output."""

    def __init__(
        self,
        limits: RepetitionLimits = DEFAULT_LIMITS,
        asked: Asked = NOTHING_ASKED,
        argument: bool = False,
    ) -> None:
        self._limits = limits
        self._asked = asked
        self._period = 0  # of the suffix, 0 when it has none
        self._run = 0  # characters at the end that equal those one period earlier
        self._kind: Unit | None = None
        self._unit = ""
        self._past: Finding | None = None
        self._kept: Finding | None = None
        self._unit_period = 0  # of ``_past`` or ``_kept``
        self._argument = argument
        self._done = self._hinted = False

    @classmethod
    def create(cls, setting: Setting) -> Repetition:
        return cls(asked=setting.asked, argument=setting.channel is Channel.TOOL_ARGUMENTS)

    def feed(self, tail: Tail, fresh: int) -> Finding | None:
        if self._done or (self._past is not None and not tail.whole):
            return None
        text, period = tail.text, self._period
        if (
            period
            and period + fresh <= len(text)
            and text[-fresh:] == text[-fresh - period : -period]
        ):
            self._run += fresh
        else:
            self._search(text)
            period = self._period
        if self._run < 2 * period or self._run < 15:
            return None
        finding = self._judge(tail, self._limits.mid, "period")
        if not tail.whole:
            if finding is not None and finding.weight is Weight.PROOF:
                if not self._may_be_wanted(tail):
                    self._done = True
                    return finding
                if self.FEW * tail.deltas <= finding.value:
                    self._kept, self._unit_period = finding, self._period
                finding = None if self._hinted else finding._replace(weight=Weight.HINT)
                self._hinted = True
            return finding
        # A whole body is judged at its end; a loop within it, before a closing bracket or a
        # sudden stop, is remembered until then.
        if finding is not None:
            self._past = finding
            self._unit_period = self._period
        return None

    def finish(self, tail: Tail, reason: str) -> Finding | None:
        if self._done or reason in POLICY_ENDINGS:
            return None
        self._search(tail.text, 12)
        cut = reason in CUT_OFF
        if cut and self._run >= 1.2 * self._period > 0:
            finding = self._judge(tail, self._limits.end, "unfinished")
            if finding is not None and finding.weight is Weight.PROOF:
                return finding
        past = self._past or self._kept
        if past is None or cut or past.weight is not Weight.PROOF:
            return past
        # It ended by itself, as what was wanted does: sooner than a loop would, and often after
        # a round number of copies.
        factor = self._limits.ended
        if self._unit_period == 1:
            factor = 2.0
            if self._kept is not None and tail.tokens <= 0:
                factor = 1.0  # its limit is that of merged runs already
            elif tail.merged:
                factor = 32.0
        if self._asked.known:  # and did not ask for it
            factor = min(factor, 2)
        wanted = past.value < factor * past.threshold or (
            past.value in ROUND and not self._asked.known
        )
        return past._replace(weight=Weight.HINT) if wanted and not self._argument else past

    def _may_be_wanted(self, tail: Tail) -> bool:
        """Whether the loop, the whole of a stream so far, may be what was asked for.

        A broken engine that begins with a loop sends one token again and again. A unit of several
        tokens from the first sign on is rather a wish, and so is one that came in a few large
        deltas; both end by themselves.
        """
        if self._asked.known:
            return False
        period, limits = self._period, self._limits
        span = self._run + period
        led = span < self.WHOLE * tail.total
        if led and not _led_in(tail.text, tail.total, span):
            return False
        copies = span / period
        deltas = tail.deltas * span / tail.total
        if self.FEW * deltas <= copies:
            return copies < limits.ended * limits.mid[unit_kind(self._unit)].copies
        if deltas < 1.5 * copies:
            return False
        if led:
            return deltas < limits.patience_led
        return deltas < (limits.patience_lines if "\n" in self._unit else limits.patience)

    def _search(self, text: str, tries: int = 3) -> None:
        self._kind = None
        size = len(text)
        at = size - GRAM
        best_period = best_run = 0
        for _ in range(tries):
            # The occurrence must begin earlier, it may overlap.
            at = text.rfind(text[-GRAM:], 0, at + GRAM - 1) if size > GRAM else -1
            if at < 0:
                break
            period = size - GRAM - at
            run = extent(text, period)
            if run + period > best_run + best_period and run > best_run:
                best_period, best_run = period, run
            # A short run may be the inside of a longer unit.
            if run > 4 * period or (period > 16 and run >= period):
                break
        self._period, self._run = best_period, best_run

    def _judge(self, tail: Tail, limits: dict[Unit, Limit], reason: str) -> Finding | None:
        period = self._period
        kind = self._kind
        if kind is None:
            self._unit = tail.text[-period:]
            kind = self._kind = unit_kind(self._unit)
        limit = limits[kind]
        span = self._run + period
        copies = span / period
        whole = span >= self.WHOLE * tail.total
        cut = reason == "unfinished"
        if whole:
            if cut and (period <= 16 or any(map(str.isalpha, self._unit))):
                limit = _less(
                    limit, self._limits.whole_cut if period <= 16 else self._limits.whole_cut_long
                )
            if kind is Unit.SYMBOL or kind is Unit.LETTER or (kind is Unit.DIGIT and cut):
                limit = Limit(self._limits.whole_symbol, self._limits.whole_symbol)
            elif kind is Unit.SHORT:
                limit = _less(limit, self._limits.whole_short)
        if (cut or kind is Unit.SHORT) and kind in _WORDY and max(self._unit) >= chr(CJK):
            limit = Limit(int(_CJK_SHARE * limit.characters), min(limit.copies, _CJK_COPIES))
        if kind in _DRAWN and not whole and not cut and self._unit < "\x7f":
            limit = self._limits.rule
        if period == 1 and tail.merged:
            # A vocabulary's merged runs: an engine that works wrote them in a few tokens.
            limit = Limit(4 * limit.characters, 4 * limit.copies)
        lines = self._lines() if cut and kind in _ROWS else 0
        if lines >= 2:
            limit = _less(limit, self._limits.groups[lines >= 4])
        needed = limit.characters
        if span < needed or copies < limit.copies:
            return None
        if not whole and kind not in _PROSE and lines < 2:
            before = tail.text[:-span]
            factor = 1.0
            if period == 1 and self._unit * 8 in before:
                factor = self._limits.data  # a border that was drawn before
            elif data_before(before):
                factor = self._limits.data_end if cut else self._limits.data
            if span < factor * needed or copies < factor * limit.copies:
                return None
        covers = self._asked.covers_cut if cut else self._asked.covers
        if covers(self._unit, copies, span):
            if self._hinted:
                return None
            self._hinted = True
            return self._finding(reason, copies, limit, Weight.HINT)
        return self._finding(reason, copies, limit, Weight.PROOF)

    def _lines(self) -> int:
        # Unlike lines in the unit, whose own begin and end are two parts of one.
        whole = [line for line in (self._unit + self._unit).split("\n")[1:-1] if line.strip()]
        return len(set(whole)) if len(whole) >= 3 else 0

    def _finding(self, reason: str, copies: float, limit: Limit, weight: Weight) -> Finding:
        return Finding(
            self.name, reason, round(copies, 1), limit.copies, weight, shape_of(self._unit, copies)
        )


_PROSE = frozenset({Unit.PHRASE, Unit.PARAGRAPH})
_DRAWN = frozenset({Unit.LETTER, Unit.SYMBOL})
_ROWS = frozenset({Unit.RECORD, Unit.LONG_RECORD, Unit.PARAGRAPH})
_WORDY = frozenset({Unit.SHORT, Unit.PHRASE, Unit.PARAGRAPH})


def _less(one: Limit, other: Limit) -> Limit:
    return Limit(min(one.characters, other.characters), min(one.copies, other.copies))


def extent(text: str, period: int) -> int:
    """Characters at the end of ``text`` that equal those ``period`` earlier, at least GRAM."""
    low, high = GRAM, GRAM
    most = len(text) - period
    # Doubling, then bisection.
    while high < most and text[-high:] == text[-high - period : -period]:
        low, high = high, min(2 * high, most)
    while low < high:
        middle = (low + high + 1) // 2
        if text[-middle:] == text[-middle - period : -period]:
            low = middle
        else:
            high = middle - 1
    return low


def _led_in(text: str, total: int, span: int) -> bool:
    # "Here it is:", and the loop.
    return total - span <= 120 and total <= len(text) and text[:-span].rstrip().endswith(":")


def data_before(text: str) -> bool:
    """Whether what stands before a loop is data or code rather than prose."""
    before = text[-400:]
    if len(before) < 24:
        return False
    if len(before) > 200 and before.isascii() and len(before.split(None, 4)) < 4:
        return True  # an encoding: base64, a minified line
    letters = sum(map(str.isalpha, before))
    code = sum(map(before.count, "{}[]()<>=;|_\\\t"))
    return letters < 0.55 * len(before) or code > 0.04 * len(before)
