"""Plain English prose, told at a glance: most of what passes, and not worth a closer look.

Salad has few words in a window, or many signs, or few of the words that join others; stutter has
them twice. Text that shows none of that need not be weighed. Of the windows of tests/corpus that
the model calls corrupt, none passes as plain, and seven in ten of the healthy ones do.
"""

from __future__ import annotations

import re
from collections.abc import Container
from operator import eq

_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
_SIGN = re.compile(r"[^A-Za-z ,.'\-]")

LEAST_WORDS = 12
CHARACTERS_A_WORD = 6.5
"""Characters of text to one word, blanks and signs included, at most."""

COMMON = 0.4
"""Share of common words, at least; written English has nearly half."""

SIGNS = 0.04
"""Share of characters that are no letter, blank, comma, stop, apostrophe or hyphen, at most."""


def plain(text: str, common: Container[str]) -> bool:
    """Whether ``text`` is plain prose. ``common``: the commonest English words."""
    words = _WORD.findall(text.lower())
    count = len(words)
    if count < LEAST_WORDS or count * CHARACTERS_A_WORD < len(text):
        return False
    if len(_SIGN.findall(text)) > SIGNS * len(text):
        return False
    if sum(map(common.__contains__, words)) < COMMON * count:
        return False
    return not any(map(eq, words, words[1:]))
