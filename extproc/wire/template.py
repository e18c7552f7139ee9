"""The shape that the messages of a stream share, so that most need not be parsed.

An engine streams one token a message, and from one message to the next only the text changes. So
once a message has given one piece of text, the bytes around that text are a template: whatever
else stands in the hole, as long as it is the inside of one JSON string, the message means the same
with that text. ``learn`` proves it by reading the template with another text in the hole.
"""

from __future__ import annotations

from typing import Any

import orjson

from extproc.wire.dialects import Dialect
from extproc.wire.events import Event, Text

_PROBE = "another t\u00e9xt \u4e2d"


class Template:
    """Bytes before and after the hole, and the event that a text in it makes."""

    __slots__ = ("_channel", "_choice", "_head", "_least", "_part", "_tail", "_tokens")

    def __init__(self, head: bytes, tail: bytes, event: Text) -> None:
        self._head = head
        self._tail = tail
        self._least = len(head) + len(tail)
        self._choice, self._channel, _, self._tokens, self._part = event

    def makes(self, event: Event) -> bool:
        """Whether an event is of the same place as those that this template makes."""
        return type(event) is Text and (event.choice, event.channel, event.part) == (
            self._choice,
            self._channel,
            self._part,
        )

    def read(self, chunk: bytes) -> Text | None:
        """The event of one whole SSE message, when it fits; None when it has to be parsed."""
        head, tail = self._head, self._tail
        if len(chunk) <= self._least or not (chunk.startswith(head) and chunk.endswith(tail)):
            return None
        inside = chunk[len(head) : -len(tail)]
        try:
            # One JSON string and nothing else, or it is refused: a quote in it would end it.
            text: Any = orjson.loads(b'"%b"' % inside)
        except orjson.JSONDecodeError:
            return None
        return Text(self._choice, self._channel, text, self._tokens, self._part)


def learn(dialect: Dialect, event: bytes, data: bytes, events: list[Event]) -> Template | None:
    """The template of a message, given the ``events`` it made; None when it has none."""
    if len(events) != 1 or not dialect.chosen.uniform:
        return None
    found = events[0]
    if type(found) is not Text or not found.text:
        return None
    head, quote, tail = data.partition(orjson.dumps(found.text))
    if not quote:
        return None
    probed: list[Event] = []
    try:
        document = orjson.loads(head + orjson.dumps(_PROBE) + tail)
    except orjson.JSONDecodeError:
        return None
    dialect.chunk(event, document, probed)
    if probed != [found._replace(text=_PROBE)]:
        return None
    before = b"event: " + event + b"\ndata: " if event else b"data: "
    return Template(before + head + b'"', b'"' + tail + b"\n\n", found)
