"""Tokens without text: the engine counts and bills tokens, and nothing can be read."""

from __future__ import annotations

from typing import ClassVar

from extproc.detect.detector import CUT_OFF, POLICY_ENDINGS, Ending, Setting
from extproc.detect.finding import Finding, Weight
from extproc.wire import Channel, Event, Text, ToolCall, Usage


class Emptiness:
    """Judges a whole response: text in any channel of any choice, or a tool call, is text.

    ``no_text``, ``empty_deltas`` (count): a stop token and a template's closing tags may stand
    alone; eight tokens that all decode to nothing may not. Source: the smallest reported case
    had 16. ``no_tokens``: the choice ended by itself, and the engine counts no token: even the end
    is one. ``empty_tail`` (count): text, then tokens that show nothing up to the token limit.
    ``bare``: a bracket or two, and blanks for all the other tokens: guided decoding with nothing
    left to say. ``thin``: more tokens than ASCII characters, which no tokenizer needs; withheld
    reasoning can look so, hence a hint.
    """

    __slots__ = (
        "_ascii",
        "_chars",
        "_done",
        "_empty",
        "_reasoning",
        "_seen",
        "_signs",
        "_tokens",
        "_tool",
    )

    name: ClassVar[str] = "emptiness"
    BARE = 4
    """Characters that are not blank, up to which an answer has said nothing."""

    reads = (*Channel, ToolCall, Usage)

    def __init__(self, tokens: int = 8) -> None:
        self._tokens = tokens
        self._empty = 0  # empty deltas since the last text
        self._seen = self._tool = False
        self._chars = self._signs = 0
        self._ascii = True
        self._reasoning = 0
        self._done = False

    @classmethod
    def create(cls, setting: Setting) -> Emptiness:
        return cls()

    def feed(self, event: Event) -> Finding | None:
        if type(event) is Text:
            if event.text:
                self._seen = True
                self._empty = 0
                self._chars += len(event.text)
                if self._signs <= self.BARE:
                    self._signs += len("".join(event.text.split()))
                if self._ascii and not event.text.isascii():
                    self._ascii = False
            else:
                self._empty += event.tokens
                # Engines hold back text behind a few empty deltas, not behind sixteen.
                if self._empty == 2 * self._tokens and not self._seen and not self._tool:
                    return self._found("empty_deltas", self._empty, Weight.PROOF)
        elif type(event) is ToolCall:
            self._tool = True
            self._empty = 0
        elif type(event) is Usage:
            self._reasoning = max(self._reasoning, event.reasoning_tokens)
        return None

    def finish(self, ending: Ending) -> Finding | None:
        reasons = set(ending.reasons.values())
        if self._done or reasons & POLICY_ENDINGS:
            return None
        shown = ending.completion_tokens - self._reasoning
        if not self._seen and not self._tool:
            count = max(shown, self._empty)
            # Up to the token limit without a sign of text, half as many say as much.
            least = self._tokens // 2 if reasons & CUT_OFF else self._tokens
            if ending.completion_tokens == 0 and "stop" in reasons:
                return self._found("no_tokens", 0, Weight.PROOF)
            return self._found("no_text", count, Weight.PROOF) if count >= least else None
        cut = bool(reasons & CUT_OFF) or not reasons
        if self._empty >= 3 * self._tokens:
            return self._found("empty_tail", self._empty, Weight.PROOF if cut else Weight.HINT)
        blanks = self._chars - self._signs
        if self._signs <= self.BARE < shown // 8 and 2 * self._tokens <= blanks <= shown:
            return self._found("bare", shown, Weight.PROOF)
        if self._ascii and shown >= 48 and not self._tool and self._chars < 0.6 * shown:
            return self._found("thin", shown, Weight.HINT)
        return None

    def _found(self, reason: str, value: int, weight: Weight) -> Finding:
        self._done = True
        shape = f"{value} tokens, {self._chars} characters"
        return Finding(self.name, reason, value, self._tokens, weight, shape)
