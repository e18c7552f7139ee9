"""Whether the beginning of a response could still be a fault.

The hold asks this before it lets the first byte go. A beginning is *ordinary* once it has shown
two different words or signs: a corrupt engine's first tokens are one token again and again,
blanks, or nothing. (Salad looks ordinary here; it takes longer to tell than a client can wait.)
"""

from __future__ import annotations


class Beginning:
    """Reads texts until they are ordinary. Bounded: only the first piece is remembered."""

    __slots__ = ("_first", "ordinary")

    def __init__(self) -> None:
        self._first = ""
        self.ordinary = False

    def feed(self, text: str) -> None:
        """One piece of text, usually a token."""
        for word in text[:512].split(None, 8)[:8]:
            word = word[:64]
            if len(set(word)) < 2 and not word.isalnum():
                continue  # one sign, perhaps repeated: neither proof nor excuse
            if not self._first:
                self._first = word
            elif word != self._first and not _grows(self._first, word):
                self.ordinary = True
                return


def _grows(first: str, word: str) -> bool:
    # "!!" then "!!!!", or "igui" then "iguiigui": the same unit in larger bites.
    return word.startswith(first) and not word.replace(first, "")
