"""Tokens without text: the engine counts and bills tokens, and nothing can be read."""

from __future__ import annotations

from extproc.detect.detector import Ending
from extproc.detect.finding import Finding, Weight
from extproc.wire import Event, Text, ToolCall


class Emptiness:
    """Judges a whole response: text in any channel of any choice, or a tool call, is text.

    ``tokens`` (count): a stop token and a template's closing tags may stand alone; eight tokens
    that all decode to nothing may not. Source: the smallest reported case had 16.
    """

    __slots__ = ("_done", "_empty", "_seen", "_tokens")

    name = "emptiness"

    def __init__(self, tokens: int = 8) -> None:
        self._tokens = tokens
        self._empty = 0  # streamed deltas with an empty text
        self._seen = False
        self._done = False

    def feed(self, event: Event) -> Finding | None:
        if self._seen:
            return None
        if type(event) is Text:
            if event.text:
                self._seen = True
            else:
                self._empty += event.tokens
                # Engines hold back text behind a few empty deltas, not behind sixteen.
                if self._empty >= 2 * self._tokens and not self._done:
                    return self._found("empty_deltas", self._empty)
        elif type(event) is ToolCall:
            self._seen = True
        return None

    def finish(self, ending: Ending) -> Finding | None:
        if self._seen or self._done or "content_filter" in ending.reasons.values():
            return None
        if ending.completion_tokens >= self._tokens:
            return self._found("no_text", ending.completion_tokens)
        if self._empty >= self._tokens:
            return self._found("no_text", self._empty)
        return None

    def _found(self, reason: str, value: int) -> Finding:
        self._done = True
        return Finding(
            self.name, reason, value, self._tokens, Weight.PROOF, f"{value} tokens, no text"
        )
