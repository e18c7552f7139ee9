"""Context classes: buckets of prompt size. A fault may live in long prompts only."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


class ContextClasses:
    """``bounds`` are (name, largest request body in bytes), ascending; ``last`` has the rest.

    A request's size in bytes stands for its prompt: it needs no body, and within one API the two
    grow together. Raises ValueError when bounds do not ascend.
    """

    def __init__(
        self, bounds: Sequence[tuple[str, int]] = (("short", 16384),), last: str = "long"
    ) -> None:
        sizes = [size for _, size in bounds]
        if sizes != sorted(set(sizes)):
            raise ValueError("context classes must ascend in size")
        self.names = (*(name for name, _ in bounds), last)
        if len(set(self.names)) != len(self.names):
            raise ValueError("two context classes have one name")
        self._sizes = sizes

    def of(self, size: int) -> str:
        """The class of a request of ``size`` bytes; an unknown size (-1) is the smallest class."""
        return self.names[bisect_left(self._sizes, size)]
