"""What a response says, whatever dialect it says it in.

Readers turn bytes into these events; detectors see nothing else. An event is a tuple:
cheap to make on the message path, immutable, comparable in tests.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, TypeAlias


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


class Finish(NamedTuple):
    """A choice ended, and the engine said why (``stop``, ``length``, ...)."""

    choice: int
    reason: str


class Usage(NamedTuple):
    """Token counts as the engine reports them; -1 where it reports none."""

    prompt_tokens: int
    completion_tokens: int


class NonFinite(NamedTuple):
    """A value in the body that is no finite number: ``NaN``, ``Infinity``, ``1e999``."""

    path: str
    literal: str


class Failure(NamedTuple):
    """An error object inside a response that the status line calls a success."""

    code: str


class Malformed(NamedTuple):
    """Bytes that break their own format. ``place`` locates the first one (byte, line or field)."""

    layer: Layer
    place: str


class TooLarge(NamedTuple):
    """A bound was reached: what follows is not read. ``limit`` is in bytes, or a ratio."""

    what: str
    limit: int


class Terminator(NamedTuple):
    """The stream's own last word (``[DONE]``)."""


Event: TypeAlias = (
    Text
    | ToolCall
    | Logprobs
    | Finish
    | Usage
    | NonFinite
    | Failure
    | Malformed
    | TooLarge
    | Terminator
)
