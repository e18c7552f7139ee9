"""The shape that the messages of a stream share, so that most need not be parsed.

An engine streams one token a message, and from one message to the next only the text changes. So
once a message has given one piece of text, the bytes around that text are a template: whatever
else stands in the hole, as long as it is the inside of one JSON string, the message means the same
with that text. ``learn`` proves it by reading the template with another text in the hole.
"""

from __future__ import annotations

import orjson

from extproc.wire.dialects import Dialect
from extproc.wire.events import Event, Text, Texts

_PROBE = "another t\u00e9xt \u4e2d"


class Template:
    """Bytes before and after the hole, and the event that a text in it makes."""

    __slots__ = ("_channel", "_choice", "_head", "_joint", "_part", "_tail", "_tokens")

    def __init__(self, head: bytes, tail: bytes, event: Text) -> None:
        self._head = head
        self._tail = tail
        self._joint = tail + head
        self._choice, self._channel, _, self._tokens, self._part = event

    def makes(self, event: Event) -> bool:
        """Whether an event is of the same place as those that this template makes."""
        return type(event) is Text and (event.choice, event.channel, event.part) == (
            self._choice,
            self._channel,
            self._part,
        )

    def read(self, data: bytes, out: list[Event]) -> bytes:
        """Reads the whole SSE messages at the start of ``data`` that fit, and returns what is left
        to be parsed: all of it when none fits. ``data`` begins with a message."""
        head, tail = self._head, self._tail
        if not data.startswith(head):
            return data
        *insides, last = data[len(head) :].split(self._joint)
        last, ends, rest = last.partition(tail)
        if ends:
            insides.append(last)
        elif insides:
            rest = head + last
        texts = _strings(insides)
        if not texts or "" in texts:
            return data
        if len(texts) == 1:
            out.append(Text(self._choice, self._channel, texts[0], self._tokens, self._part))
        else:
            pieces = tuple(texts)
            out.append(Texts(self._choice, self._channel, pieces, self._tokens, self._part))
        return rest


def _strings(insides: list[bytes]) -> list[str]:
    """What the insides of JSON strings say; none when one of them is not the inside of one."""
    array = b'["%b"]' % b'","'.join(insides)
    # Without a quote of its own, and no backslash before the quote that ends it, an inside ends
    # where it should.
    plain = array.count(b'"') == 2 * len(insides) and b'\\"' not in array
    try:
        if plain:
            texts: list[str] = orjson.loads(array)
            return texts
        # Each for itself is one JSON string and nothing else, or it is refused.
        return [orjson.loads(b'"%b"' % inside) for inside in insides]
    except orjson.JSONDecodeError:
        return []


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
