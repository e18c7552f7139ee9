"""Loops: the end of the text is one unit over and over.

What tells a loop from a separator, a table or a list is that the *tail* is periodic and does not
stop. So only the periodic suffix is judged: its unit, how many copies, how many characters.
While the text still comes the limits are strict; at its end they depend on how it ended, because
a loop runs into the token limit and a wanted repetition stops by itself.

Method: every STEP characters, the distance to the previous occurrence of the last GRAM characters
is the only period the suffix can have. One slice comparison then says how far the suffix already
had it. A known period is extended by one comparison a step. Amortised O(1) a character; the
buffer is the last BUFFER characters.
"""

from __future__ import annotations

from dataclasses import dataclass

from extproc.detect.finding import Finding, Weight, shape_of

GRAM = 8
STEP = 8
BUFFER = 8192
_KEEP = BUFFER // 2

SEPARATORS = frozenset("-=_*#~─═━.·•+%/\\|<>^ \t\n ")
"""Characters that people and formats repeat on purpose."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A loop needs both: so many characters under the period, so many copies of the unit."""

    characters: int
    copies: float


@dataclass(frozen=True, slots=True)
class RepetitionLimits:
    """Limits by unit. ``mid`` while the text comes, ``end`` when it was cut off by the token limit.

    Source: vLLM's and llama.cpp's loop guards stop at 4 copies, which flags tables and lists; the
    figures here were raised until none of the healthy exchanges in tests/corpus is called corrupt.
    """

    whole_symbol: Limit = Limit(16, 16)
    """The whole output is one symbol that is no separator: the shape of token id 0."""

    whole_short: Limit = Limit(32, 12)
    """The whole output is one unit of 2 to 16 characters."""

    symbol: Limit = Limit(64, 64)
    letter: Limit = Limit(64, 64)
    digit: Limit = Limit(256, 256)
    separator: Limit = Limit(512, 512)
    short: Limit = Limit(160, 16)
    phrase: Limit = Limit(280, 5)
    paragraph: Limit = Limit(1600, 4)

    end_symbol: Limit = Limit(20, 20)
    end_separator: Limit = Limit(192, 192)
    end_short: Limit = Limit(48, 8)
    end_phrase: Limit = Limit(160, 4)
    end_paragraph: Limit = Limit(400, 3)


class Repetition:
    """Judges one channel of one choice."""

    __slots__ = ("_done", "_limits", "_period", "_run", "_since", "_text", "_total")

    name = "repetition"

    def __init__(self, limits: RepetitionLimits = RepetitionLimits()) -> None:
        self._limits = limits
        self._text = ""
        self._since = 0  # characters not yet looked at
        self._total = 0
        self._period = 0  # of the suffix, 0 when it has none
        self._run = 0  # characters at the end that equal those one period earlier
        self._done = False

    def feed(self, text: str, tokens: int) -> Finding | None:
        if self._done or not text:
            return None
        finding: Finding | None = None
        # A long piece is cut, so that the buffer bounds what one comparison looks at.
        for start in range(0, len(text), _KEEP):
            piece = text if len(text) <= _KEEP else text[start : start + _KEEP]
            self._text += piece
            self._total += len(piece)
            self._since += len(piece)
            if self._since >= STEP:
                self._look()
                finding = finding or self._judge(self._mid())
        return finding

    def finish(self, reason: str) -> Finding | None:
        if self._done or reason not in ("length", "max_tokens", ""):
            return None
        if self._since:
            self._look()
        return self._judge(self._end())

    def _look(self) -> None:
        text, fresh = self._text, self._since
        self._since = 0
        period = self._period
        if period and text[-fresh:] == text[-fresh - period : -period]:
            self._run += fresh
        else:
            self._search(text)
        if len(text) > BUFFER:
            self._text = text[-_KEEP:]

    def _search(self, text: str) -> None:
        self._period = self._run = 0
        at = text.rfind(text[-GRAM:], 0, len(text) - 1) if len(text) > GRAM else -1
        if at < 0:
            return
        period = len(text) - GRAM - at
        # Doubling, then bisection: the longest suffix that equals what stands one period earlier.
        low, high = GRAM, GRAM
        most = len(text) - period
        while high < most and text[-high:] == text[-high - period : -period]:
            low, high = high, min(2 * high, most)
        while low < high:
            middle = (low + high + 1) // 2
            if text[-middle:] == text[-middle - period : -period]:
                low = middle
            else:
                high = middle - 1
        self._period, self._run = period, low

    def _unit(self) -> str:
        return self._text[-self._period :]

    def _mid(self) -> tuple[str, Limit] | None:
        if not self._period:
            return None
        limits, unit = self._limits, self._unit()
        whole = self._run + self._period >= 0.9 * self._total
        if self._period == 1:
            if unit in SEPARATORS:
                return "period", limits.separator
            if unit.isdigit():
                return "period", limits.digit
            if whole:
                return "period", limits.whole_symbol
            return "period", limits.letter if unit.isalpha() else limits.symbol
        if not any(map(str.isalpha, unit)):
            return "period", limits.separator
        if self._period <= 16:
            return "period", limits.whole_short if whole else limits.short
        return "period", limits.phrase if self._period <= 80 else limits.paragraph

    def _end(self) -> tuple[str, Limit] | None:
        if not self._period:
            return None
        limits, unit = self._limits, self._unit()
        if not unit.strip("".join(SEPARATORS)):
            return "unfinished", limits.end_separator
        if self._period == 1:
            return "unfinished", limits.end_symbol
        if self._period <= 16:
            return "unfinished", limits.end_short
        return "unfinished", limits.end_phrase if self._period <= 80 else limits.end_paragraph

    def _judge(self, rule: tuple[str, Limit] | None) -> Finding | None:
        if rule is None:
            return None
        reason, limit = rule
        span = self._run + self._period
        copies = span / self._period
        if span < limit.characters or copies < limit.copies:
            return None
        self._done = True
        shape = shape_of(self._unit(), copies)
        return Finding(self.name, reason, round(copies, 1), limit.copies, Weight.PROOF, shape)
