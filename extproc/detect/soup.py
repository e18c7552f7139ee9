"""Soups: tokens drawn from a small part of the vocabulary, in no order."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from operator import eq
from typing import ClassVar

from extproc.detect.detector import CUT_OFF, Setting
from extproc.detect.finding import Finding, Weight
from extproc.detect.tail import Tail

_WORD = re.compile(r"[A-Za-z']+|\d+")
_FLOW = re.compile(r"[A-Za-z']+|\d+|\n")
_FUNCTION = frozenset(
    (
        "the of and to in a is that for it as was with be by on not he his but at are this "
        "have an from they which or you were her she there been their its one all we had "
        "would will can more when who if so no out up into them then what some could other "
        "than now these may only do any also after such our your"
    ).split()
)
_ARTICLES = frozenset(("the", "a", "an", "our", "your", "their", "its"))
_AFTER_NONE = frozenset("the of and to in a is for it as was by at from an or its their".split())
"""No article, and hardly a preposition, stands before one of these."""
_PREPOSITIONS = frozenset(("of", "to", "in", "for", "with", "at", "by", "from"))
_NO_OBJECT = frozenset(("of", "and", "to", "by", "or", "is", "was"))

_TOKEN = re.compile(r"\w+|[^\w\s]+")

_DIGIT = re.compile("[0-9]")
_AFTER_DIGIT = re.compile(r"(?<=\d)[a-z]{3,}")
_BEFORE_DIGIT = re.compile(r"[a-z]{3,}(?=\d)")
"""Units stand after digits, numbered names before them; no word again and again does both."""

_HEX = frozenset("abcdef")

_WELDS = (
    re.compile(r"\d[A-Za-z]{2,}|[A-Za-z]{2,}\d"),
    re.compile(r",[,.]|\*{2,}\d|\d\*{2,}"),
    re.compile(r"[)\]]\d"),
)


class FunctionWordSoup:
    """``soup``: most neighbours are both English function words, in impossible pairs
    ("the of", "and the to"), and few different words make up the text.
    Source: English prose has a third of such pairs at most and hardly an impossible one.
    """

    __slots__ = ("_done", "_limits")

    name: ClassVar[str] = "function_words"
    stride: ClassVar[int] = 256

    WORDS = 80

    def __init__(
        self, share: float = 0.55, pairs: float = 0.12, distinct: float = 0.5, least: int = 40
    ) -> None:
        self._limits = (share, pairs, distinct, least)
        self._done = False

    @classmethod
    def create(cls, setting: Setting) -> FunctionWordSoup:
        return cls()

    def feed(self, tail: Tail, fresh: int) -> Finding | None:
        return None if self._done else self._judge(tail.text[-480:])

    def finish(self, tail: Tail, reason: str) -> Finding | None:
        return None

    def _judge(self, text: str) -> Finding | None:
        if text.count(" ") < 0.2 * len(text):  # short words: prose has a blank in six
            return None
        share, pairs, distinct, least = self._limits
        words = _WORD.findall(text.lower())[-self.WORDS :]
        if len(words) < least:
            return None
        common = sum(word in _FUNCTION for word in words)
        if common < share * len(words):
            return None
        flowing = _FLOW.findall(text.lower())  # an item of a list may end and begin anyhow
        impossible = sum(
            (a in _ARTICLES and b in _AFTER_NONE)
            or (a in _PREPOSITIONS and b in _NO_OBJECT)
            or (a == b and a in _FUNCTION)
            for a, b in pairwise(flowing)
        )
        different = len(set(words))
        if impossible < pairs * len(words) or not 6 <= different <= distinct * len(words):
            return None
        self._done = True
        return Finding(
            self.name, "soup", round(impossible / len(words), 2), pairs, Weight.PROOF,
            f"{impossible} impossible pairs in {len(words)} words",
        )  # fmt: skip


class NoOrder:
    """``no_order`` (ratio): words, numbers and signs, or short lines, of a small vocabulary follow
    each other as if drawn from a hat: neighbours occur together no more often than their counts
    alone make them, and each stands beside itself as often as chance has it.
    Every grammar, table, dump and drawing has preferred neighbours and avoids doubles; sequences
    of one kind alone (digits, bases, yes and no) may well be random, and are not judged.
    Source: soups of the corpus have ratios of 0.9 to 1.0, the least of 8 000 natural passages
    whose doubles are not avoided is 4.1.
    """

    __slots__ = ("_done", "_limits")

    name: ClassVar[str] = "order"
    stride: ClassVar[int] = 256

    TOKENS = 90
    LEAST_RATIO = 0.1
    """Where no two neighbours ever meet again, something counts through them all."""

    def __init__(
        self,
        ratio: float = 1.4,
        doubles: float = 0.5,
        least: int = 45,
        distinct: float = 0.34,
        kinds: int = 6,
    ) -> None:
        self._limits = (ratio, doubles, least, distinct, kinds)
        self._done = False

    @classmethod
    def create(cls, setting: Setting) -> NoOrder:
        return cls()

    def feed(self, tail: Tail, fresh: int) -> Finding | None:
        if self._done or tail.total < 100:
            return None
        text = tail.text[-400:]
        if sum(map(text.count, "0123456789")) < 4:
            return None
        heads = [line.split(None, 1)[0] for line in text.split("\n") if line.strip()]
        if len(heads) >= 8 and sum(map(eq, heads, heads[1:])) >= 0.4 * len(heads):
            return None  # a list by names: each goes on for some lines
        if text.count("\n") * 8 >= len(text):
            lines = [line.strip() for line in text.split("\n")]
            return self._judge([line for line in lines[1:] if line])
        return self._judge(_TOKEN.findall(text)[-self.TOKENS :])

    def _judge(self, tokens: list[str]) -> Finding | None:
        ratio, doubles, least, distinct, kinds = self._limits
        size = len(tokens)
        if size < least or not kinds <= len(set(tokens)) <= distinct * size:
            return None
        counts = Counter(tokens)
        repeated = [token for token, count in counts.items() if count >= 2]
        if max(counts.values()) > 0.3 * size or not (
            any(token[0].isalpha() for token in repeated)
            and any(token[0].isdigit() for token in repeated)
            and any(not token[0].isalnum() for token in repeated)
        ):
            return None
        pairs = Counter(pairwise(tokens))
        met = sum(count * (count - 1) for count in pairs.values())
        alike = sum(count * count for count in counts.values()) / size / size
        same = sum(count for (one, other), count in pairs.items() if one == other)
        measured = met / (alike * alike * (size - 1) * (size - 2))
        if not self.LEAST_RATIO <= measured <= ratio or same < doubles * alike * (size - 1):
            return None
        self._done = True
        shape = f"{len(counts)} different among {size}"
        return Finding(self.name, "no_order", round(measured, 2), ratio, Weight.PROOF, shape)

    def finish(self, tail: Tail, reason: str) -> Finding | None:
        return None


class SymbolSoup:
    """``numbers`` (welds): digits welded to words, brackets and stars without any operator between,
    or one or two words again and again with a digit on either side.
    ``low_ids`` (different signs): signs, digits and the first capitals alone, in no order: the
    lowest ids of a byte-level vocabulary are ASCII in its order. (Encodings such as uuencode and
    base85 use the whole alphabet.)
    ``signs`` (tokens): an answer of a few signs alone, one token each, up to the token limit: where
    signs are drawn, or Morse is written, vocabularies have tokens for several.
    Source: reports of numeric and symbol soup; few examples, so the limits ask for much.
    """

    __slots__ = ("_done", "_limits")

    name: ClassVar[str] = "symbols"
    stride: ClassVar[int] = 256

    WINDOW = 320
    SHORT = 96
    WELDED = 4
    ALONE = 2000
    """Characters of an answer that consists of signs alone."""

    def __init__(
        self, welds: float = 0.035, low: float = 0.98, signs: int = 10, least: int = 40
    ) -> None:
        self._limits = (welds, low, signs, least)
        self._done = False

    @classmethod
    def create(cls, setting: Setting) -> SymbolSoup:
        return cls()

    def feed(self, tail: Tail, fresh: int) -> Finding | None:
        if self._done or tail.total < 40:
            return None
        text = tail.text[-self.WINDOW :]
        return self._welded(text) or self._judge(text) or self._judge(text[-self.SHORT :])

    def _welded(self, text: str) -> Finding | None:
        if not _DIGIT.search(text):
            return None
        digits = sum(map(text.count, "0123456789"))
        # Capitals make numbers and words the parts of mangled names, and of encodings.
        if digits >= 0.12 * len(text) and sum(map(str.isupper, text)) <= 0.04 * len(text):
            before, after = (
                Counter(_AFTER_DIGIT.findall(text)),
                Counter(_BEFORE_DIGIT.findall(text)),
            )
            both = {word: min(count, after[word]) for word, count in before.items()}
            welded = sum(n for word, n in both.items() if n >= 2 and not _HEX.issuperset(word))
            if welded >= self.WELDED and len(before) <= 2 * welded:
                return self._found("numbers", welded, self.WELDED)
        return None

    def _judge(self, text: str) -> Finding | None:
        letters = sum(map(text.count, "etaoinsr"))
        if letters > 0.25 * len(text):
            return None
        solid = text.replace(" ", "").replace("\n", "")
        size = len(solid)
        welds, low_share, least_signs, least = self._limits
        if size < least:
            return None
        digits = sum(map(solid.count, "0123456789"))
        if 0.2 * size <= digits <= 0.9 * size:
            found = [pattern.findall(text) for pattern in _WELDS]
            counts = [len(places) for places in found]
            total = sum(counts)
            # One and the same weld again and again is an escape of some format.
            if (
                len(set(found[0])) not in (1, 2)
                and sum(count >= 2 for count in counts) >= 2
                and total >= welds * size
            ):
                words = re.findall(r"[A-Za-z]{2,}", text)
                if len(set(words)) <= max(4, 0.3 * len(words)):
                    return self._found("numbers", total, round(welds * size, 1))
        low = sum("!" <= char <= "H" for char in solid)
        if low >= low_share * size and digits >= 0.08 * size:
            signs = len({char for char in solid if not char.isalnum()})
            pairs = {solid[i : i + 2] for i in range(size - 1)}
            if signs >= least_signs and len(pairs) >= 0.75 * min(size - 1, 240):
                return self._found("low_ids", signs, least_signs)
        return None

    def finish(self, tail: Tail, reason: str) -> Finding | None:
        tokens = tail.tokens if tail.whole else tail.deltas
        if self._done or reason not in CUT_OFF or tail.total > self.ALONE or tokens < 40:
            return None
        solid = "".join(tail.text.split())
        if tokens < 0.7 * len(solid) or len(solid) < 40 or len(set(solid)) > 8:
            return None
        if any(map(str.isalnum, solid)) or not solid.isascii() or len(set(solid)) < 2:
            return None
        return self._found("signs", tokens, 40)

    def _found(self, reason: str, value: float, limit: float) -> Finding:
        self._done = True
        return Finding(self.name, reason, value, limit, Weight.PROOF, "signs in no order")
