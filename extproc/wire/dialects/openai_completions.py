"""OpenAI completions (the older text API): ``choices[].text``, logprobs in parallel lists."""

from __future__ import annotations

from typing import Any

from extproc.wire.dialects.base import (
    Dialect,
    Json,
    failure,
    finish,
    integer,
    number,
    objects,
    string,
    token_logprobs,
    usage,
)
from extproc.wire.events import Channel, Event, Logprobs, Text


class OpenAICompletions(Dialect):
    """The same document shape whether streamed or whole."""

    __slots__ = ()

    uniform = True

    terminator = "[DONE]"
    finishes = True

    def chunk(self, event: bytes, document: Any, out: list[Event]) -> None:
        self._read(document, 1, out)

    def body(self, document: Any, out: list[Event]) -> None:
        self._read(document, 0, out)

    def _read(self, document: Any, tokens: int, out: list[Event]) -> None:
        if type(document) is not dict:
            return
        failure(document, out)
        for choice in objects(document.get("choices")):
            index = integer(choice.get("index"), 0)
            reason = choice.get("finish_reason")
            text = choice.get("text")
            # An empty text beside the finish reason is the finish alone, not an empty token.
            if text or (type(text) is str and tokens and not reason):
                out.append(Text(index, Channel.CONTENT, string(text), tokens))
            logprobs = choice.get("logprobs")
            if type(logprobs) is dict:
                self._logprobs(index, logprobs, out)
            finish(index, reason, out)
        usage(document, out)

    def _logprobs(self, index: int, logprobs: Json, out: list[Event]) -> None:
        token_logprobs(index, logprobs.get("content"), out)  # llama.cpp: the layout of chat
        values = logprobs.get("token_logprobs")
        if type(values) is not list or not values:
            return
        tokens = logprobs.get("tokens")
        names = [string(t) for t in tokens] if type(tokens) is list else []
        names += [""] * (len(values) - len(names))
        tops = logprobs.get("top_logprobs")
        out.append(
            Logprobs(
                index,
                tuple(names[: len(values)]),
                tuple(number(v) for v in values),
                tuple(
                    tuple(number(v) for v in top.values()) if type(top) is dict else ()
                    for top in tops
                )
                if type(tops) is list
                else (),
            )
        )
