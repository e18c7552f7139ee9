"""The two kinds of detector, and what they are told about a response."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from extproc.detect.finding import Finding
from extproc.wire import Event


@dataclass(slots=True)
class Ending:
    """What is known when a response is over, beside its text."""

    reasons: dict[int, str] = field(default_factory=dict)
    """Finish reason by choice; a choice that never finished is missing."""

    completion_tokens: int = -1
    """As the engine reported it; -1 when it did not."""


class TextDetector(Protocol):
    """Reads the text of one channel of one choice, in pieces as they arrive."""

    def feed(self, text: str, tokens: int) -> Finding | None:
        """A finding as soon as the text so far proves it. ``tokens`` is 0 when unknown."""

    def finish(self, reason: str) -> Finding | None:
        """A finding that only the end allows. ``reason`` is the finish reason, "" if none came."""


class EventDetector(Protocol):
    """Reads every event of a response."""

    def feed(self, event: Event) -> Finding | None:
        """A finding as soon as the events so far prove it."""

    def finish(self, ending: Ending) -> Finding | None:
        """A finding that only the end allows."""
