"""JSON as engines really send it.

orjson reads what is valid. What it refuses goes to the standard library, which accepts the
literals that a broken engine writes (``NaN``, ``Infinity``) and says where they stand; bytes
that are no UTF-8 are replaced, so that the text around them can still be judged.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import orjson

from extproc.wire.events import Event, Layer, Malformed, NonFinite

MAX_REPORTED = 4
"""Non-finite values named for one document; the rest are alike."""


class Unreadable(ValueError):
    """Not JSON by any reading. ``place`` is a byte offset in words."""

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
        return _lenient(data, out)


def _lenient(data: bytes, out: list[Event]) -> Any:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        out.append(Malformed(Layer.UTF8, f"byte {error.start}"))
        text = data.decode(errors="replace")
    try:
        value = json.loads(text, strict=False)
    except json.JSONDecodeError as error:
        raise Unreadable(f"character {error.pos}") from None
    except (RecursionError, ValueError):  # ValueError: an integer of thousands of digits
        raise Unreadable("a value nested too deeply or too long") from None
    for found, event in enumerate(_non_finite(value)):
        if found == MAX_REPORTED:
            break
        out.append(event)
    return value


def _non_finite(value: Any) -> Iterator[NonFinite]:
    # An explicit stack: the document may nest up to the parser's own recursion limit.
    stack: list[tuple[str, Any]] = [("$", value)]
    while stack:
        path, node = stack.pop()
        if isinstance(node, float):
            if not math.isfinite(node):
                yield NonFinite(
                    path, "NaN" if math.isnan(node) else "Infinity" if node > 0 else "-Infinity"
                )
        elif isinstance(node, dict):
            stack.extend((f"{path}.{_safe(key)}", child) for key, child in reversed(node.items()))
        elif isinstance(node, list):
            stack.extend((f"{path}[{i}]", node[i]) for i in range(len(node) - 1, -1, -1))


def _safe(key: str) -> str:
    """A key as it may appear in a path: field names pass, anything else could be generated text."""
    return key if key.isascii() and key.isidentifier() and len(key) <= 40 else "*"
