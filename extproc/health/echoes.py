"""The same answer again: one request that is asked over and over must not condemn a unit. Pure.

A loop that shows late in a stream can be paired with no other unit's answer, so a prompt that makes
every unit loop would be charged each time it comes, whoever sends it. Such answers are equal down
to the text before the loop, while a fault of the unit spoils different answers in different ways.
So the n-th charge for one text counts 1/n: a unit that spoils everything is still found, some
answers later.
"""

from __future__ import annotations

from collections import OrderedDict

LEAST = 256
"""Characters of a text from which its like is the same answer, not the same fault: garbage from the
first token on is alike on all requests."""

MAX_TEXTS = 1024


class Echoes:
    """What one unit was charged for. A text is a hash."""

    def __init__(self) -> None:
        self._charges: OrderedDict[str, int] = OrderedDict()

    def weight(self, text: str) -> float:
        """The weight, above 0 to 1, of one more charge for ``text``; "" is never damped."""
        if not text:
            return 1.0
        count = self._charges.pop(text, 0) + 1
        self._charges[text] = count
        if len(self._charges) > MAX_TEXTS:
            self._charges.popitem(last=False)
        return 1.0 / count
