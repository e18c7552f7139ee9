"""The end of a text that is still coming: what detectors look at."""

from __future__ import annotations


class Tail:
    """The last characters of one channel, and counts of the whole.

    ``text`` holds at least the last KEEP characters once so many have come, at most KEEP + SLACK.
    A byte a character for ASCII, four for emoji: at most 16 KiB, twice that while it grows.
    """

    __slots__ = ("deltas", "text", "tokens", "total", "whole")

    KEEP = 3072
    SLACK = 1024

    def __init__(self) -> None:
        self.text = ""
        self.total = 0
        """Characters seen."""
        self.deltas = 0
        """Streamed deltas seen."""
        self.tokens = -1
        """At the end, when the engine reported them and all are of this text; else -1."""
        self.whole = True
        """Whether everything came at once: nothing can be said before the end is known."""

    @property
    def merged(self) -> bool:
        """Whether tokens stand for so many characters that runs must have been merged."""
        tokens = self.tokens if self.whole or self.tokens > 0 else self.deltas
        return 0 < 12 * tokens <= self.total

    def append(self, block: str) -> None:
        """Takes the next characters, at most SLACK of them."""
        text = self.text + block
        if len(text) > self.KEEP + self.SLACK:
            text = text[-self.KEEP :]
        self.text = text
        self.total += len(block)
