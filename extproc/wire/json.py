"""JSON as engines really send it.

orjson reads what is valid. What it refuses goes to the standard library, which accepts the
literals that a broken engine writes (``NaN``, ``Infinity``) and says where they stand; bytes
that are no UTF-8 are replaced, so that the text around them can still be judged.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import orjson

from extproc.wire.events import Event, Layer, Malformed, NonFinite

MAX_REPORTED = 4
"""Non-finite values named for one document; the rest are alike."""

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair: one character
    r"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})"
    r"|.)",
    re.DOTALL,
)


class Unreadable(ValueError):
    """Not JSON by any reading. ``place`` is a character offset in words."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.place = place


def loads(data: bytes, out: list[Event]) -> Any:
    """The value of one JSON document; what was wrong with it is appended to ``out``.

    Raises Unreadable when nothing can be made of it.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return lenient(data, out)


def lenient(data: bytes, out: list[Event]) -> Any:
    """As ``loads``, for data that orjson refused."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        out.append(Malformed(Layer.UTF8, f"byte {error.start}"))
        text = data.decode(errors="replace")
    if "\\ud" in text or "\\uD" in text:  # half a surrogate pair is no character
        text = _ESCAPE.sub(lambda match: "\\ufffd" if match["lone"] else match[0], text)
    try:
        value = json.loads(text, strict=False)
    except json.JSONDecodeError as error:
        raise Unreadable(f"character {error.pos}") from None
    except (RecursionError, ValueError):  # ValueError: an integer of thousands of digits
        raise Unreadable("a value nested too deeply or too long") from None
    if type(value) in (float, dict, list):
        out.extend(islice(_non_finite(value), MAX_REPORTED))
    return value


_Trail = tuple["_Trail", str] | None
"""The way to a value, innermost step first; written out only for a value that is reported."""


def _non_finite(value: Any) -> Iterator[NonFinite]:
    # An explicit stack: the document may nest up to the parser's own recursion limit.
    stack: list[tuple[_Trail, Any]] = [(None, value)]
    while stack:
        trail, node = stack.pop()
        if type(node) is float:
            if not math.isfinite(node):
                literal = "NaN" if math.isnan(node) else "Infinity" if node > 0 else "-Infinity"
                yield NonFinite(_path(trail), literal)
            continue
        steps: Iterable[tuple[str | int, Any]] = (
            node.items() if type(node) is dict else enumerate(node)
        )
        children: list[tuple[_Trail, Any]] = [
            ((trail, _step(key)), child)
            for key, child in steps
            if type(child) in (float, dict, list)
        ]
        stack.extend(reversed(children))


def _path(trail: _Trail) -> str:
    steps: list[str] = []
    while trail is not None:
        trail, step = trail
        steps.append(step)
    if len(steps) > 12:
        steps[6:-6] = ["..."]
    return "$" + "".join(reversed(steps))


def _step(key: str | int) -> str:
    """A key in a path. Field names pass; any other string could be generated text."""
    if type(key) is int:
        return f"[{key}]"
    key = str(key)
    return f".{key}" if key.isascii() and key.isidentifier() and len(key) <= 40 else ".*"
