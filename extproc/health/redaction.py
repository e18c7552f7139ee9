"""Text of a response, made fit to be kept: what is not on a list of common words is masked. Pure.

Names, addresses, numbers, keys cannot all be recognised, so nothing is looked for. Instead only
what is known to say little stays: words of a fixed public list, blanks, punctuation and symbols.
Every other run of letters and digits becomes its kind and length, ``<3 latin 7>``; equal ones in
one text have the same number, so that a loop still looks like one.

What this does not promise: a sentence of nothing but common words stays as it is, and symbols do.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container

_ADDRESS = re.compile(r"(?i)(?:\b[a-z][a-z0-9+.-]{1,20}://|\bwww\.)\S+|[^\s@<>]+@[^\s@<>]+")
_BLANKS = frozenset(" \n\t")
LEAST = 3
"""Characters of a word that may stay: single letters can spell any word, and lists of common words
hold abbreviations."""

_SHORT = frozenset("an as at be by do if in is it no of on or so to up we".split())


def redacted(text: str, common: Container[str], most: int) -> str:
    """The end of ``text``, masked, in at most ``most`` bytes of UTF-8. ``common``: lower case."""
    # One form for each character: look-alikes of letters are letters then.
    whole = unicodedata.normalize("NFKC", text[-2 * most :])
    cut = whole[-most:]
    start = 0
    if len(cut) < len(whole) or len(text) > 2 * most:
        while start < len(cut) and _worded(cut[start]):
            start += 1  # the end of a word may be a word of its own
    masked: list[str] = []
    numbers: dict[str, int] = {}
    while start < len(cut):
        address = _ADDRESS.match(cut, start)
        if address is not None:
            masked.append("<address>")
            start = address.end()
            continue
        end = start
        while end < len(cut) and _worded(cut[end]):
            end += 1
        if end == start:
            masked.append(_sign(cut[start]))
            start += 1
            continue
        word = cut[start:end]
        lower = word.lower()
        if word.isalpha() and (lower in common if len(word) >= LEAST else lower in _SHORT):
            masked.append(word)
        else:
            number = numbers.setdefault(word, len(numbers) + 1)
            masked.append(f"<{number} {_kind(word)} {len(word)}>")
        start = end
    out = "".join(masked)
    if len(out.encode()) <= most:
        return out
    # At the border of a mask or a word, never within one.
    size, kept = len("…".encode()), []
    for part in reversed(masked):
        size += len(part.encode())
        if size > most:
            break
        kept.append(part)
    return "…" + "".join(reversed(kept))


def _worded(char: str) -> bool:
    return char == "_" or unicodedata.category(char)[0] in "LMN"


def _sign(char: str) -> str:
    category = unicodedata.category(char)
    if char in _BLANKS or category[0] in "PSZ":
        return char
    return f"<{category}>"  # controls, private use, what no terminal should see


def _kind(word: str) -> str:
    if word.isdecimal():
        return "digits"
    if any(char.isdecimal() for char in word):
        return "key"
    return unicodedata.name(word[0], "letters").partition(" ")[0].lower()
