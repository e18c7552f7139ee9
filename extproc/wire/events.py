"""What a response says, whatever dialect it says it in.

Readers turn bytes into these events; detectors see nothing else. An event is a tuple:
cheap to make on the message path, immutable, comparable in tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray


class Channel(StrEnum):
    """The part of a choice that a piece of text belongs to. Each is judged apart."""

    CONTENT = "content"
    REASONING = "reasoning"
    REFUSAL = "refusal"
    TOOL_ARGUMENTS = "tool_arguments"


class Layer(StrEnum):
    """Where on the way from bytes to events something did not hold."""

    ENCODING = "encoding"
    UTF8 = "utf8"
    FRAMING = "framing"
    JSON = "json"
    SCHEMA = "schema"


class Form(StrEnum):
    """How an embedding was written on the wire."""

    FLOAT = "float"
    """A list of numbers, at least one of them with a fraction (or null)."""

    BASE64 = "base64"
    """Little-endian float32 in base64."""

    INTEGER = "integer"
    """A list of integers alone: int8, packed bits, or zeros written without a point."""

    SPARSE = "sparse"
    """Weights by vocabulary index; only the weights are kept."""


class Status(NamedTuple):
    """The HTTP status of the response, 100..599.

    No reader emits it (it stands in the headers): who has the headers feeds it before the body.
    """

    code: int


class Text(NamedTuple):
    """A piece of generated text.

    ``tokens`` is how many tokens the piece stands for: 1 for a streamed delta (an engine
    sends one token or a few in each), 0 where the wire does not tell (a whole JSON body).
    ``part`` tells parallel parts of one channel apart: the index of a tool call.
    """

    choice: int
    channel: Channel
    text: str
    tokens: int = 0
    part: int = 0


class Texts(NamedTuple):
    """Pieces of one place that came one after another, none of them empty: for each a ``Text``
    with ``tokens``, said at once."""

    choice: int
    channel: Channel
    texts: tuple[str, ...]
    tokens: int = 0
    part: int = 0

    def each(self) -> Iterator[Text]:
        """The pieces as events of their own."""
        for text in self.texts:
            yield Text(self.choice, self.channel, text, self.tokens, self.part)

    def joined(self) -> Text:
        """The pieces as one."""
        tokens = self.tokens * len(self.texts)
        return Text(self.choice, self.channel, "".join(self.texts), tokens, self.part)


class ToolCall(NamedTuple):
    """The name under which a tool call was opened."""

    choice: int
    part: int
    name: str


class Logprobs(NamedTuple):
    """Log probabilities of consecutive tokens; ``None`` where the wire has null.

    ``top`` holds, for each token, the values of its listed alternatives.
    """

    choice: int
    tokens: tuple[str, ...]
    values: tuple[float | None, ...]
    top: tuple[tuple[float | None, ...], ...] = ()


class Vector(NamedTuple):
    """One embedding; ``position`` is its index in the response's list.

    ``data`` holds the values as little-endian float64, nulls as NaN; ``array`` is a view on it.
    Bytes compare and hash, also where values are NaN: equal ``data`` means identical vectors.
    ``shape`` is ``(dimensions,)``, or ``(rows, dimensions)`` for one vector a token, or
    ``(0,)`` for an empty or null embedding (a null one has ``nulls`` 1).
    ``nulls`` and ``non_finite`` count the nulls, and the NaN and infinities that were no nulls.
    """

    position: int
    data: bytes
    shape: tuple[int, ...]
    form: Form
    nulls: int = 0
    non_finite: int = 0

    @property
    def array(self) -> NDArray[np.float64]:
        """The values, flat, float64, read-only."""
        return np.frombuffer(self.data, dtype="<f8")


class Scores(NamedTuple):
    """Relevance scores of one reranking; ``None`` where the wire has null or no number.

    ``indices`` are the documents' positions in the request, in the order of the response.
    """

    indices: tuple[int, ...]
    values: tuple[float | None, ...]


class Finish(NamedTuple):
    """A choice ended, and the engine said why.

    Dialects translate to the words of OpenAI's chat API where they mean the same: ``stop``,
    ``length``, ``tool_calls``, ``content_filter``, ``error``. Any other word of the engine's
    (``abort``, ``repetition``, ``pause_turn``) is passed on as it is.
    """

    choice: int
    reason: str


class Usage(NamedTuple):
    """Token counts as the engine reports them; -1 where it reports none.

    ``reasoning_tokens`` are among ``completion_tokens``; their text may have been withheld.
    """

    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int = -1


class NonFinite(NamedTuple):
    """A value in the body that is no finite number: ``NaN``, ``Infinity``, ``1e999``."""

    path: str
    literal: str


class Cause(StrEnum):
    """What an engine's own error message admits to."""

    UNKNOWN = ""
    NON_FINITE = "non_finite"
    """NaN or infinity reached a JSON encoder or a sampler."""

    GRAMMAR = "grammar"
    """A token that the grammar of guided decoding forbids was generated."""

    DEVICE = "device"
    """The accelerator failed: illegal access, device-side assertion."""


class Failure(NamedTuple):
    """An error object in the body. Whether the status line admits it too, ``Status`` tells.

    ``code`` is the error's type or code, one word; the message is read for ``cause`` alone.
    """

    code: str
    cause: Cause = Cause.UNKNOWN


class Malformed(NamedTuple):
    """Bytes that break their own format. ``place`` locates the first one (byte, line or field)."""

    layer: Layer
    place: str


class TooLarge(NamedTuple):
    """A bound was reached: what follows is not read. ``limit`` is in bytes, or a ratio."""

    what: str
    limit: int


class Terminator(NamedTuple):
    """The stream's own last word: ``[DONE]``, ``message_stop``, ``"done": true``, ..."""


class Unterminated(NamedTuple):
    """A stream of a dialect that has a last word ended without it.

    ``expected`` names the word. After a ``Failure`` this is normal for some engines (llama.cpp).
    """

    expected: str


class Ended(NamedTuple):
    """The body was read to its end: the last event, missing when a bound stopped the reading.

    ``streamed`` tells a stream from a whole body. ``finishes`` tells whether the dialect gives a
    finish reason for every choice of a complete answer, so that a missing one means something.
    """

    streamed: bool
    finishes: bool


Event: TypeAlias = (
    Status
    | Text
    | Texts
    | ToolCall
    | Logprobs
    | Vector
    | Scores
    | Finish
    | Usage
    | NonFinite
    | Failure
    | Malformed
    | TooLarge
    | Terminator
    | Unterminated
    | Ended
)


def apart(events: Iterable[Event]) -> list[Event]:
    """The same events with each piece of text as one of its own. Which pieces are told at once
    depends on how the body was cut."""
    return [one for e in events for one in (e.each() if type(e) is Texts else (e,))]
