"""What to say of a unit that nobody knows: most often its id was misspelt."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

MOST = 8
"""Ids that are named; a fleet may have hundreds."""


def no_such(unit: str, known: Sequence[str]) -> str:
    """That no unit has an id, and which ids there are: those most alike, else the first."""
    if not known:
        return f"no unit has the id {unit!r}: none is configured, and none has answered yet"
    alike = get_close_matches(unit, known, n=3)
    if alike:
        return f"no unit has the id {unit!r}; did you mean {' or '.join(alike)}?"
    more = f" and {len(known) - MOST} more" if len(known) > MOST else ""
    return f"no unit has the id {unit!r}; there are {', '.join(known[:MOST])}{more}"
