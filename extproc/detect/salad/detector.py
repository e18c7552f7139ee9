"""Word salad: unrelated words, or subwords welded together, in the Latin script.

A window of the last characters is compared with natural text of some sixty languages: how
surprising its letters are to the language they fit best, whether one language fits all its
words, which English words stand beside each other, and how letters, blanks, stops and signs
follow each other. A small network, trained on natural windows against salad, weighs all that.
Text that is not mostly Latin letters is not judged; languages that the table lacks were part of
the training as such (each with its own column hidden), so they score as natural text.
"""

from __future__ import annotations

import math
from typing import ClassVar

from extproc.detect.detector import CUT_OFF, Setting
from extproc.detect.finding import Finding, Weight
from extproc.detect.salad.model import model
from extproc.detect.salad.prose import plain
from extproc.detect.tail import Tail
from extproc.wire import Channel


class Salad:
    """``window`` (log odds): one window beyond what natural windows reach.
    ``windows`` (mean log odds): two windows in a row, each beyond nearly all of them.
    ``end`` (log odds): the last part alone, much shorter than a window: it needs ``end`` more.
    A text shorter than a window is judged at its end, as one. A longer one has more windows to
    be odd in: it needs ``long`` more, unless it was cut off, as salad mostly is.
    Source: of 24 000 windows of packages that training never saw, 5 of 3 files pass ``window``:
    keywords, stop words and a page's menu, in rows (bench/salad_build.py builds the model,
    bench/accuracy.py measures it).
    """

    __slots__ = (
        "_done",
        "_end",
        "_hinted",
        "_last",
        "_limits",
        "_long",
        "_on",
        "_pair",
        "_skip",
        "_top",
    )

    name: ClassVar[str] = "salad"
    stride: ClassVar[int] = 256

    WINDOW = 384
    END = 220
    LEAST = 90
    """Characters below which nothing is said."""
    CALM = -4.0
    """Log odds of a window after which the next one is left out, and of plain prose."""

    def __init__(
        self,
        window: float = 3.4,
        windows: float = 2.2,
        hint: float = 0.9,
        long: float = 0.8,
        end: float = 2.1,
        on: bool = True,
    ) -> None:
        self._limits = (window, windows, hint)
        self._long = long
        self._end = end
        self._top = self._pair = -math.inf
        self._on = on
        self._last: float | None = None
        self._done = self._hinted = self._skip = False

    @classmethod
    def create(cls, setting: Setting) -> Salad:
        # Arguments are names and numbers: a list of ids is no salad.
        return cls(on=setting.channel is not Channel.TOOL_ARGUMENTS)

    def feed(self, tail: Tail, fresh: int) -> Finding | None:
        if self._done or not self._on or tail.total < self.LEAST:
            return None
        if fresh < self.stride and tail.total > self.WINDOW and fresh < 48:
            return None  # the rest of the text: hardly new
        if self._skip and fresh == self.stride:
            self._skip = False
            return None
        window_text, weighing = tail.text[-self.WINDOW :], model()
        calm = plain(window_text, weighing.tables.common)
        score = self.CALM if calm else weighing.score(window_text)
        last, self._last = self._last, score
        if score is None:
            return None
        # Far from salad, the next half window can wait; the end never does.
        self._skip = score <= self.CALM
        window, windows, hint = self._limits
        more = self._long if tail.total > self.WINDOW else 0.0
        self._top = max(self._top, score)
        if score >= window + more:
            return self._found("window", score, window + more, Weight.PROOF)
        if last is not None and min(last, score) >= 0.5 * windows:
            pair = (last + score) / 2
            self._pair = max(self._pair, pair)
            if pair >= windows + more:
                return self._found("windows", pair, windows + more, Weight.PROOF)
        if score >= hint and not self._hinted:
            self._hinted = True
            return self._found("window", score, window, Weight.HINT)
        return None

    def finish(self, tail: Tail, reason: str) -> Finding | None:
        window, windows, _ = self._limits
        if self._done or not self._on:
            return None
        if tail.total > self.WINDOW:
            # The good text before must not dilute a bad end.
            text, weighing = tail.text[-self.END :], model()
            score = None if plain(text, weighing.tables.common) else weighing.score(text)
            if score is not None and score >= window + self._end:
                return self._found("end", score, window + self._end, Weight.PROOF)
        if reason not in CUT_OFF:
            return None
        if self._top >= window:
            return self._found("window", self._top, window, Weight.PROOF)
        if self._pair >= windows:
            return self._found("windows", self._pair, windows, Weight.PROOF)
        return None

    def _found(self, reason: str, value: float, limit: float, weight: Weight) -> Finding:
        self._done = weight is Weight.PROOF
        return Finding(self.name, reason, round(value, 2), limit, weight, "unrelated letters")
