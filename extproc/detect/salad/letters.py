"""A window of text as numbers: folded letters, their trigrams, and classes of characters."""

from __future__ import annotations

import unicodedata

import numpy as np
from numpy.typing import NDArray

A = 27
"""Blank and 26 letters."""

TOP = 0x2100
"""Latin letters and quotes end below; everything from here on is OTHER."""

OTHER, LOWER, UPPER, DIGIT, SPACE, NEWLINE, STOP, QUOTE, BRACKET, SIGN = range(10)
CLASSES = 10

_SPECIAL = {
    "æ": "a", "œ": "o", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "t", "ı": "i", "ß": "s",
    "ħ": "h", "ŋ": "n", "ə": "e", "ĸ": "k", "ŧ": "t", "ɓ": "b", "ɗ": "d", "ƙ": "k", "ɛ": "e",
    "ɔ": "o", "ɣ": "g", "ƴ": "y", "ʼ": "",
}  # fmt: skip


def _tables() -> tuple[NDArray[np.int16], NDArray[np.uint8]]:
    fold = np.zeros(TOP + 1, np.int16)
    kind = np.full(TOP + 1, OTHER, np.uint8)
    for code in (*range(0x250), *range(0x1E00, 0x1F00)):
        char = chr(code)
        base = unicodedata.normalize("NFKD", char)[0].lower()
        base = _SPECIAL.get(char.lower(), base)
        if char.isalpha() and len(base) == 1 and "a" <= base <= "z":
            fold[code] = ord(base) - 96
            kind[code] = UPPER if char.isupper() else LOWER
    for code in range(128):
        char = chr(code)
        if char.isdigit():
            kind[code] = DIGIT
        elif char == "\n":
            kind[code] = NEWLINE
        elif char.isspace():
            kind[code] = SPACE
        elif char in ".,;:!?":
            kind[code] = STOP
        elif char in "'\"-":
            kind[code] = QUOTE
        elif char in "()[]{}<>":
            kind[code] = BRACKET
        elif char.isprintable() and not char.isalpha():
            kind[code] = SIGN
    kind[0xA0] = SPACE
    for char in "«»¿¡·":
        kind[ord(char)] = STOP if char in "¿¡·" else QUOTE
    for code in (0x2018, 0x2019, 0x201C, 0x201D, 0x201E, 0x2013, 0x2014):
        kind[code] = QUOTE
    return fold, kind


_FOLD, _KIND = _tables()


def points(text: str) -> NDArray[np.uint32]:
    """Code points."""
    return np.frombuffer(text.encode("utf-32-le", "replace"), np.uint32)


def kinds(codes: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """The class of each character."""
    return _KIND[np.minimum(codes, TOP)]


def folded(codes: NDArray[np.uint32]) -> NDArray[np.int16]:
    """Letters 1..26, 0 for anything else, a single 0 between words and at both ends."""
    padded = np.zeros(codes.size + 2, np.int16)
    padded[1:-1] = _FOLD[np.minimum(codes, TOP)]
    keep = padded != 0
    keep[:-1] |= keep[1:]
    keep[-1] |= keep[-2]
    out = padded[keep]
    # The blank kept is the one before a word; the last word's own blank ends the text.
    return out if out.size and out[-1] == 0 else np.append(out, np.int16(0))


def trigrams(letters: NDArray[np.int16]) -> NDArray[np.int32]:
    """The index of each trigram whose last two are not both blank; needs 3 letters or more."""
    wide = letters.astype(np.int32)
    index = wide[:-1] * A
    index += wide[1:]
    out = index[:-1] * A
    out += wide[2:]
    return out
