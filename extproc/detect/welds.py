"""Sparse bad tokens in English prose: fragments welded onto words, "andipse", "thathandle".

A wrong token now and then leaves fluent text around it, which no statistic of the whole sees. But
the little words of English end where they end: hardly any other word begins with "that" or
"which". What stands welded to several of them is no word.
"""

from __future__ import annotations

import re
from typing import ClassVar

from extproc.detect.detector import Setting
from extproc.detect.finding import Finding, Weight
from extproc.detect.tail import Tail

_WELD = re.compile(
    r"(that|which|because|between|would|could|should|their|they|those|these|before"
    r"|through|while|when|and|from|with|this)([a-z]{3,14})(?![\w'’./(=-])"
)
_WORDS = re.compile(
    r"(?:which|when|where)(?:so)?ever|shoulder.*|theirsel.*|theseus|before(?:hand|time)|throughout"
    r"|throughput|throughway|whence|thatch.*|(?:c|w|sh)ould(?:est|nt|ve|be|nst)|they(?:re|ll|ve)"
    r"|(?:with|and|from|this).*(?:in|out|al|er|or|ing|stand|hold|draw|drew|held)"
)
_JOINED = frozenset(
    (
        "the and that this they was were has had are his her you not for with from have will can "
        "all one but their there she him been than then them its our who what when which said does "
        "did may must said into also each some most any only other these those such"
    ).split()
)
"""Missing blanks weld words to words: text from a page's layout, and no bad token."""
_STRICT = frozenset(
    "that which because between would could should their they those these before through".split()
)


def _english(text: str) -> bool:
    """Running English: an article in three hundred characters, and hardly a sign of code."""
    signs = sum(map(text.count, "{}[]<>=;_|\\"))
    return text.count(" the ") * 300 >= len(text) and signs <= 0.01 * len(text)


class Welds:
    """``fragments`` (places): one fragment at the end of different little words, three times in
    all or twice for two fragments; or three different ones at the end of the strictest of them.
    Off where blanks are missing between words.
    Source: sparse_bad_tokens of the corpus; none of 30 000 natural passages.
    """

    __slots__ = ("_done", "_joined", "_limit", "_stems", "_strict")

    name: ClassVar[str] = "welds"
    stride: ClassVar[int] = 256

    OVERLAP = 32
    MOST = 64
    """Fragments remembered."""

    def __init__(self, fragments: int = 3) -> None:
        self._limit = fragments
        self._stems: dict[str, set[str]] = {}
        self._strict: set[str] = set()
        self._joined = 0
        self._done = False

    @classmethod
    def create(cls, setting: Setting) -> Welds:
        return cls()

    def feed(self, tail: Tail, fresh: int) -> Finding | None:
        if self._done:
            return None
        window = tail.text[-fresh - self.OVERLAP :]
        edge = len(window) - fresh
        for match in _WELD.finditer(window):
            start = match.start()
            if start and (window[start - 1].isalnum() or window[start - 1] in "_'’./-"):
                continue
            # A word that the block's end may have cut belongs to the next block.
            if match.end() <= edge - 1 or (match.end() == len(window) and fresh == self.stride):
                continue
            stem, fragment = match.groups()
            if fragment in _JOINED:
                self._joined += 1
            elif len(self._stems) < self.MOST and not _WORDS.fullmatch(stem + fragment):
                self._stems.setdefault(fragment, set()).add(stem)
                if stem in _STRICT:
                    self._strict.add(fragment)
        if not self._stems or self._joined > 1:
            return None
        again = [len(stems) for stems in self._stems.values() if len(stems) >= 2]
        places = max(sum(again), len(self._strict))
        if places < self._limit or not _english(tail.text):
            return None
        self._done = True
        shape = f"{places} places"
        return Finding(self.name, "fragments", places, self._limit, Weight.PROOF, shape)

    def finish(self, tail: Tail, reason: str) -> Finding | None:
        return None
