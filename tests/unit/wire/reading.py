"""Feeding a Reader in pieces."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from extproc.wire import DIALECTS, Event, Framing, Limits, Reader, apart

DEFAULT = Limits()


def read(
    dialect: str,
    framing: Framing,
    pieces: Iterable[bytes],
    encoding: str = "",
    limits: Limits = DEFAULT,
) -> list[Event]:
    """All events of a body that arrives in ``pieces``."""
    reader = Reader(DIALECTS[dialect](), framing, encoding, limits)
    events = [event for piece in pieces for event in reader.feed(piece)]
    return apart(events) + reader.finish()


def bytewise(body: bytes) -> list[bytes]:
    """A body as single bytes."""
    return [body[i : i + 1] for i in range(len(body))]


def cut(body: bytes, places: Iterable[int]) -> list[bytes]:
    """A body cut at ``places``."""
    edges = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    return [body[a:b] for a, b in pairwise(edges)]
