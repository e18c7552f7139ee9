"""Salad across scripts: a uniform draw from a multilingual vocabulary.

Healthy text puts a space, a hyphen or a bracket between words of different scripts. Tokens drawn
at random do not: letters of unrelated scripts stand side by side.
"""

from __future__ import annotations

import re
from typing import ClassVar

from extproc.detect.detector import Setting
from extproc.detect.finding import Finding, Weight
from extproc.detect.scripts import GREEK, LATIN, UNSPACED, classes
from extproc.detect.tail import Tail

_SWITCH = re.compile(r"(?=(\S)(?!\1)(\S))")
_FORMULA = frozenset((LATIN, GREEK))
_FOREIGN = "[^\x00-\u03ff\u1d00-\u2bff\ua720-\ua7ff\uab30-\uab6f\ufb00-\ufb06]"
_FRAGMENT = re.compile(
    f"(?<=[a-z]){_FOREIGN}{{1,6}}|(?<=[a-z][,;.]){_FOREIGN}{{1,3}}(?= [a-z])"
    f"|{_FOREIGN}{{1,6}}(?=[a-z])"
    "|(?<=[a-z]{3})[α-ω]{2,6}"
)
"""Letters beyond Latin, Greek, phonetics and ligatures, glued to a lower-case Latin letter."""
LOOK_ALIKES = frozenset("аеорсхуіјѕԁһАВЕКМНОРСТХУІЈЅ")
"""Cyrillic letters that people, not engines, mix into Latin words."""


def _letter_of_another(kind: str) -> bool:
    return kind not in " LG"


_BREAKS = str.maketrans(dict.fromkeys("\n\r\t/|-,.:;()=…–—·•、", "  "))
"""Between words of two scripts, these are a reason for the second one."""
_SIGNS = re.compile(r"[.,:;(){}<>=/_\"'`。，、：；（）]")
_JOINT = re.compile(r"[a-z]{3}(?:[A-Z]{3,}(?![a-z])|[A-Z][a-z]{2})|[A-Z]{3,}[\u4e00-\u9fff]")


class ScriptMixing:
    """``welded`` (switches of two kinds): letters of two scripts side by side, and of two others.
    In two words or more: one string of all kinds of letters is a specimen. Latin beside Han, kana,
    hangul, Thai and their like counts only among many scripts: product names stand so in Chinese
    and Japanese. Latin beside Greek does not make a kind: formulae.
    ``jumping`` (switches): four scripts, welded somewhere, and words of one beside words of another
    with a blank alone between them.
    ``one_kind`` (hint): switches of one kind alone, or two kinds in few places.
    ``short``: a few tokens, most words welded of two that begin apart, and Han among them.
    ``sparse``: at the end of a Latin text, fragments of another script glued to lower-case letters,
    and hardly a word of that script beside them.
    Source: 12 of 14 multilingual salads of the corpus; none of its healthy exchanges, none of
    20 000 natural passages.
    """

    __slots__ = ("_done", "_foreign", "_fragments", "_glued", "_hinted", "_limits")

    name: ClassVar[str] = "script_mixing"
    stride: ClassVar[int] = 64

    WINDOW = 512
    SHORT = 160
    """Characters."""

    def __init__(self, switches: int = 3, scripts: int = 4, fragments: int = 2) -> None:
        self._limits = (switches, scripts, fragments)
        self._fragments = self._foreign = self._glued = 0
        self._done = self._hinted = False

    @classmethod
    def create(cls, setting: Setting) -> ScriptMixing:
        return cls()

    def feed(self, tail: Tail, fresh: int) -> Finding | None:
        text = tail.text
        if text[-fresh:].isascii() or self._done:
            return None
        window = text[-self.WINDOW :]
        read = classes(window.translate(_BREAKS))
        switches, scripts, _ = self._limits
        self._glue(text[-fresh - 2 :], fresh)
        kinds: set[frozenset[str]] = set()
        strong = welds = places = jumps = 0
        last = LATIN
        for word in read.split(" "):
            if not word:
                last = ""
                continue
            jumps += bool(last) and word[0] != last
            last = word[-1]
            if word == word[0] * len(word):
                continue
            here = 0
            for pair in _SWITCH.findall(word):
                kind = frozenset(pair)
                if kind & UNSPACED:
                    welds += LATIN in kind or not kind <= UNSPACED
                    if LATIN in kind or kind <= UNSPACED:
                        continue
                elif kind == _FORMULA:
                    continue
                here += 1
                kinds.add(kind)
            strong += here
            places += here > 0
        if not strong and not welds:
            return None
        present = len(set(read) - {" "})
        if strong >= switches and len(kinds) >= 2 and places >= 2:
            return self._found("welded", strong, switches, Weight.PROOF)
        if strong + welds >= switches and present >= scripts and places >= 2:
            return self._found("welded", strong + welds, switches, Weight.PROOF)
        if present >= scripts and strong + welds + jumps >= switches + 2 and jumps >= 2:
            return self._found("jumping", strong + welds + jumps, switches + 2, Weight.PROOF)
        if strong >= switches or len(kinds) >= 2:
            return self._found("one_kind", strong, switches, Weight.HINT)
        return None

    def _glue(self, window: str, fresh: int) -> None:
        self._foreign += sum(map(_letter_of_another, classes(window[-fresh:])))
        for found in _FRAGMENT.findall(window):
            letters = classes(found)  # without the marks that some scripts write as characters
            if " " not in letters and letters and not LOOK_ALIKES.issuperset(found):
                self._fragments += 1
                self._glued += len(letters)

    def finish(self, tail: Tail, reason: str) -> Finding | None:
        if not self._done and tail.total <= self.SHORT and not tail.text.isascii():
            joints = len(_JOINT.findall(tail.text))
            spaced = len(tail.text.split())
            if (
                joints >= 3
                and 2 * joints >= spaced
                and "H" in classes(tail.text)
                and not _SIGNS.search(tail.text)
            ):
                return self._found("short", joints, 3, Weight.PROOF)
        if self._done or not self._fragments or self._foreign > 0.03 * tail.total:
            return None
        if self._foreign > 2 * self._glued:  # it also has words of the other script
            return None
        limit = self._limits[2]
        weight = Weight.PROOF if self._fragments >= limit else Weight.HINT
        return self._found("sparse", self._fragments, limit, weight)

    def _found(self, reason: str, value: int, limit: int, weight: Weight) -> Finding | None:
        if weight is Weight.PROOF:
            self._done = True
        elif self._hinted:
            return None
        self._hinted = True
        return Finding(self.name, reason, value, limit, weight, f"{value} switches of script")
