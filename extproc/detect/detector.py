"""The two kinds of detector, and what they are told about a response."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from extproc.detect.asked import NOTHING_ASKED, UNSEEN, Asked
from extproc.detect.finding import Finding
from extproc.detect.tail import Tail
from extproc.wire import Channel, Event, RequestFacts

CUT_OFF = frozenset({"length", "max_tokens", ""})
"""Finish reasons of a text that did not end by itself; "" where none came.

A loop runs into the token limit; a wanted repetition stops by itself. So the limits of what looks
like a loop are lower where the text was cut off.
"""

POLICY_ENDINGS = frozenset({"content_filter", "refusal", "safety", "abort"})
"""Finish reasons by which somebody stopped the engine: what is missing then, is missing rightly."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is known before the first event, and to which text the detector is set."""

    request: RequestFacts = UNSEEN
    channel: Channel = Channel.CONTENT
    asked: Asked = NOTHING_ASKED


@dataclass(slots=True)
class Ending:
    """What is known when a response is over, beside its text."""

    reasons: dict[int, str] = field(default_factory=dict)
    """Finish reason by choice; a choice that never finished is missing."""

    readable: bool = False
    """Whether anything that answers came: text, a call, a vector, a finish."""

    completion_tokens: int = -1
    """As the engine reported it; -1 when it did not."""


class TextDetector(Protocol):
    """Reads one channel of one choice, ``stride`` characters at a time.

    Blocks are cut at multiples of the stride whatever the pieces were that arrived, so the same
    text gives the same findings however it was split.
    """

    name: ClassVar[str]
    stride: ClassVar[int]

    def feed(self, tail: Tail, fresh: int) -> Finding | None:
        """A finding as soon as the text proves it. The last ``fresh`` characters are new."""

    def finish(self, tail: Tail, reason: str) -> Finding | None:
        """A finding that only the end allows. ``reason`` is the finish reason, "" if none came."""


class DeltaDetector(Protocol):
    """Reads one channel of one choice as its deltas arrive: the token boundaries are evidence."""

    name: ClassVar[str]

    def delta(self, tail: Tail, text: str, tokens: int) -> Finding | None:
        """One delta. ``tokens`` is 0 when the text is a whole body."""

    def finish(self, tail: Tail, reason: str, completion_tokens: int) -> Finding | None:
        """``completion_tokens`` is -1 unless this channel has them all."""


class EventDetector(Protocol):
    """Reads events of a whole response."""

    name: ClassVar[str]
    reads: Collection[type[Event] | Channel]
    """The kinds of event it wants; for ``Text``, the channels. Pieces of text that came one after
    another may be given as one: what it finds may not depend on where they were cut."""

    def feed(self, event: Event) -> Finding | None:
        """A finding as soon as the events so far prove it."""

    def finish(self, ending: Ending) -> Finding | None:
        """A finding that only the end allows."""
