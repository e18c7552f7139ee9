"""Which script a letter is of: one class letter a script, blank for all that is no letter."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right

_RANGES = (
    (0x0041, "L"), (0x0250, "L"), (0x0370, "G"), (0x0400, "C"), (0x0530, "r"), (0x0590, "W"),
    (0x0600, "A"), (0x0700, "y"), (0x0780, "t"), (0x07C0, "n"), (0x0900, "D"), (0x0980, "B"),
    (0x0A00, "P"), (0x0A80, "J"), (0x0B00, "O"), (0x0B80, "T"), (0x0C00, "E"), (0x0C80, "K"),
    (0x0D00, "M"), (0x0D80, "S"), (0x0E00, "h"), (0x0E80, "h"), (0x0F00, "h"), (0x1000, "h"),
    (0x10A0, "g"), (0x1100, "H"), (0x1200, "I"), (0x13A0, "x"), (0x1780, "h"), (0x1800, "m"),
    (0x1C80, "C"), (0x1C90, "g"), (0x1D00, "L"), (0x1F00, "G"), (0x2000, " "), (0x2C00, "x"),
    (0x2DE0, "C"), (0x2E00, " "), (0x2E80, "H"), (0x3000, " "), (0x3040, "H"), (0xA000, "H"),
    (0xA4D0, "x"), (0xA640, "C"), (0xA6A0, "x"), (0xA720, "L"), (0xA800, "x"), (0xAA00, "h"),
    (0xAB00, "I"), (0xAB30, "L"), (0xABC0, "x"), (0xAC00, "H"), (0xD800, " "), (0xF900, "H"),
    (0xFB00, "L"), (0xFB13, "r"), (0xFB1D, "W"), (0xFB50, "A"), (0xFE00, " "), (0xFE70, "A"),
    (0xFEFF, " "), (0xFF00, "H"), (0x10000, "x"), (0x1D400, " "), (0x1E000, "x"),
    (0x1F000, " "), (0x20000, "H"), (0xE0000, " "),
)  # fmt: skip
_STARTS = [start for start, _ in _RANGES]

LATIN, GREEK = "L", "G"

UNSPACED = frozenset("Hh")
"""Han, kana, hangul (H) and Thai, Lao, Tibetan, Burmese, Khmer (h): written without spaces, or
with Latin words set directly beside them."""


class _Classes(dict[int, "str | None"]):
    """str.translate table that fills itself: code point -> class; marks vanish."""

    def __missing__(self, code: int) -> str | None:
        char = chr(code)
        category = unicodedata.category(char)
        if category[0] == "M" or category == "Cf":
            value: str | None = None
        elif category[0] == "L":
            value = _RANGES[bisect_right(_STARTS, code) - 1][1] if code >= 0x41 else " "
            if code in _NEUTRAL:
                value = " "
        else:
            value = " "
        self[code] = value
        return value


_NEUTRAL = frozenset({0xAA, 0xB5, 0xBA, 0x2C7, 0x2126, 0x212A, 0x212B, 0x3BC, 0x3C0, 0x3A9})
"""Letters that stand for units and constants beside any script: ª º µ μ π Ω K Å."""

_CLASSES = _Classes()


def classes(text: str) -> str:
    """One class letter for each character of ``text``; combining marks are left out."""
    return text.translate(_CLASSES)
