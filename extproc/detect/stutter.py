"""Stutter: tokens come out twice, "the the service service"."""

from __future__ import annotations

import re
from operator import eq
from typing import ClassVar

from extproc.detect.asked import NOTHING_ASKED, Asked
from extproc.detect.detector import Setting
from extproc.detect.finding import Finding, Weight
from extproc.detect.tail import Tail

_WORD = re.compile(r"[^\W\d_]+")
_DOUBLE = re.compile(r"(?<![^\W_])([^\W\d_]{1,40})(?: \1){1,8}(?![\w-])")
_ALLOWED = frozenset(
    (
        "that",
        "had",
        "is",
        "no",
        "so",
        "very",
        "bye",
        "ha",
        "la",
        "bla",
        "blah",
        "yes",
        "ok",
        "go",
        "do",
        "you",
    )
)

_CELLS = frozenset(("true", "false", "none", "null", "left", "right"))
_KEYWORD = re.compile(
    r"(?<![\w.$@-])(for|if|while|return|def|class|import|from|in|else|elif|function|const|let|var"
    r"|new|public|private|static|void|int|struct|lambda|yield|await|async|fn|impl|match|switch|case"
    r"|SELECT|FROM|WHERE|INSERT|VALUES|JOIN|select|where)(?: \1)+(?![\w-])"
)
_TWICE = re.compile(
    r"<\w[^<>]{0,200}? ([\w:-]+) \1=|(\"[^\"\n:,{}\[\]]{1,40}\"):? ?\2:|<(\w+) \3(?=[ >])"
)
"""An attribute or a key twice before its value, a tag's name twice: no parser takes any."""


class Stutter:
    """``doubled`` (kinds of word, share of the words): many different words stand twice.
    ``syntax`` (places): keywords of code, names of attributes, keys of JSON stand twice where the
    language allows them once.

    One word twice is a slip, "had had" is grammar, and whole languages double words for the
    plural; six different ones within a hundred words, function words among them, are none of
    these. Source: stutter reports show 10 to 100 % of the tokens doubled; the most in a natural
    passage of 20 000 is 3 kinds.
    """

    __slots__ = ("_asked", "_done", "_hinted", "_limits", "_sites")

    name: ClassVar[str] = "stutter"
    stride: ClassVar[int] = 256

    WINDOW = 640

    def __init__(
        self,
        kinds: int = 5,
        share: float = 0.08,
        syntax: int = 2,
        asked: Asked = NOTHING_ASKED,
    ) -> None:
        self._limits = (kinds, share)
        self._sites = syntax
        self._asked = asked
        self._done = self._hinted = False

    @classmethod
    def create(cls, setting: Setting) -> Stutter:
        return cls(asked=setting.asked)

    def feed(self, tail: Tail, fresh: int) -> Finding | None:
        if self._done:
            return None
        window = tail.text[-self.WINDOW :]
        if (finding := self._syntax(window)) is not None:
            return finding
        words = window.split(" ")
        if sum(map(eq, words, words[1:])) < 2:
            return None
        found = [m.group(1) for m in _DOUBLE.finditer(window)]
        if len(found) < 3:
            return None
        kinds = {word.lower() for word in found} - _ALLOWED
        limit, share = self._limits
        if len(kinds) < limit - 2:
            return None
        # Nearly everything again and again, and no list of equal cells: these have few kinds.
        again = sum(map(eq, words, words[1:]))
        long = {word for word in kinds if len(word) > 3 and word not in _CELLS}
        if again >= 0.4 * len(words) and len(words) >= 24 and len(long) >= 3:
            self._done = True
            return self._found(len(kinds), Weight.PROOF)
        count = len(_WORD.findall(window))
        # In a short text fewer kinds will do when they are more of it.
        enough = (len(kinds) >= limit and 2 * len(found) >= share * count) or (
            len(kinds) >= limit - 1 and 2 * len(found) >= 2 * share * count
        )
        # Lists in columns repeat a word too; in a stutter most of the doubled words are common.
        code = sum(map(window.count, "{}[]()<>=;|_\\\t"))
        if enough and code <= 0.02 * len(window) and not self._asked.covers(found[0], 2, 0):
            self._done = True
            return self._found(len(kinds), Weight.PROOF)
        if not self._hinted:
            self._hinted = True
            return self._found(len(kinds), Weight.HINT)
        return None

    def finish(self, tail: Tail, reason: str) -> Finding | None:
        return None

    def _syntax(self, window: str) -> Finding | None:
        sites = 0
        if "=" in window or ":" in window:
            if "(" in window or "{" in window or ";" in window or ":\n" in window:
                doubled = [match.group(1) for match in _KEYWORD.finditer(window)]
                sites = len(doubled) if len(set(doubled)) >= 2 else 0
            if '="' in window or '":' in window:
                sites += sum(1 for _ in _TWICE.finditer(window))
        if sites < self._sites:
            return None
        self._done = True
        shape = f"{sites} places"
        return Finding(self.name, "syntax", sites, self._sites, Weight.PROOF, shape)

    def _found(self, kinds: int, weight: Weight) -> Finding:
        shape = f"{kinds} different words doubled"
        return Finding(self.name, "doubled", kinds, self._limits[0], weight, shape)
