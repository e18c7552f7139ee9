"""What can keep the demo from running, said in a way that helps."""

from __future__ import annotations


class Missing(Exception):
    """Something the demo needs is not installed. ``remedy`` is the command that installs it."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}\n  remedy: {remedy}")
        self.what = what
        self.remedy = remedy


class Broken(Exception):
    """A process of the demo did not come up, or ended by itself. ``tail`` ends its log."""

    def __init__(self, what: str, tail: str = "") -> None:
        super().__init__(f"{what}\n{tail}" if tail else what)
        self.what = what
        self.tail = tail
