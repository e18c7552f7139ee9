"""Tokens shown as the vocabulary spells them, or joined wrongly: Ġ for a space, ▁, <0x0A>."""

from __future__ import annotations

import re
from typing import ClassVar

from extproc.detect.detector import Setting
from extproc.detect.finding import Finding, Weight
from extproc.detect.tail import Tail

_MARK = re.compile(r"[ĠĊ](?=[\x21-\x7eĠĊ])|▁(?=[^\W\d_])|(?<=[a-z]) ?##(?=[a-z])")
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_SPACED = re.compile(r"(?<=[a-z])  [.,](?=  [A-Za-z])")
_GAP = re.compile(r"(?<=\S) +(?=\S)")
_MALTESE = re.compile(r"[ħż]")


class TokenizerMarks:
    """``marks`` (count, and share of the characters): byte-level space and newline marks,
    SentencePiece marks. ``bytes``: byte tokens. ``spacing``: all words two spaces apart, and
    punctuation apart from its word too: tokens joined by a space.
    Source: Ġ stands in Maltese, beside ħ and ż, and hardly elsewhere in natural text.
    """

    __slots__ = ("_bytes", "_done", "_limits", "_marks")

    name: ClassVar[str] = "tokenizer_marks"
    stride: ClassVar[int] = 64

    def __init__(self, marks: int = 5, share: float = 0.02, punctuation: int = 3) -> None:
        self._limits = (marks, share, punctuation)
        self._marks = self._bytes = 0
        self._done = False

    @classmethod
    def create(cls, setting: Setting) -> TokenizerMarks:
        return cls()

    def feed(self, tail: Tail, fresh: int) -> Finding | None:
        if self._done:
            return None
        text = tail.text
        window = text[-fresh - 6 :]
        marks, share, _ = self._limits
        if not window.isascii() or "##" in window:
            cut = len(window) - fresh
            self._marks += sum(m.start() >= cut - 1 for m in _MARK.finditer(window))
            if (
                self._marks >= marks
                and self._marks >= share * tail.total
                and not _MALTESE.search(text)
                and "##" not in text[:3]
            ):
                return self._found("marks", self._marks, marks)
        if "<0x" in window:
            self._bytes += len(_BYTE.findall(window))
            if self._bytes >= marks and self._bytes >= share * tail.total:
                return self._found("bytes", self._bytes, marks)
        return None

    def finish(self, tail: Tail, reason: str) -> Finding | None:
        text = tail.text[-2048:]
        if self._done or "  " not in text:
            return None
        count = len(_SPACED.findall(text))
        punctuation = self._limits[2]
        if count < punctuation:
            return None
        gaps = _GAP.findall(text)
        doubled = sum(len(gap) == 2 for gap in gaps)
        if len(gaps) >= 20 and doubled >= 0.9 * len(gaps):
            return self._found("spacing", count, punctuation)
        return None

    def _found(self, reason: str, value: int, limit: int) -> Finding:
        self._done = True
        return Finding(self.name, reason, value, limit, Weight.PROOF, f"{value} marks")
