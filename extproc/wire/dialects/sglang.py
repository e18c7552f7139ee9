"""SGLang's native ``/generate``: ``text`` with ``meta_info``.

A stream repeats the text from its beginning in every message, unless the server was started to
send increments; the two are told apart by whether a message begins with what came before.
"""

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
    text,
)
from extproc.wire.events import Channel, Event, Logprobs, Usage

_MAX_CHOICES = 64

_TAIL = 64
"""Characters of what came before that are compared."""


class SGLang(Dialect):
    """``index`` numbers the choices of a stream; several prompts give a list."""

    __slots__ = ("_counts", "_said")

    terminator = "[DONE]"
    finishes = True

    def __init__(self) -> None:
        super().__init__()
        # By choice, the length and tail of a cumulative text so far; -1 once it is increments.
        self._said: dict[int, tuple[int, str]] = {}
        self._counts: dict[int, int] = {}  # log probabilities seen, by choice

    def chunk(self, event: bytes, document: Any, out: list[Event]) -> None:
        if type(document) is not dict:
            return
        failure(document, out)
        index = integer(document.get("index"), 0)
        length, tail = self._said.get(index, (0, ""))
        piece = string(document.get("text"))
        if length >= 0 and piece[length - len(tail) : length] == tail:
            if index in self._said or len(self._said) < _MAX_CHOICES:
                self._said[index] = (len(piece), piece[-_TAIL:])
            piece = piece[length:]
        else:
            self._said[index] = (-1, "")
        text(index, Channel.CONTENT, piece, 1, out)
        self._meta(index, document.get("meta_info"), self._counts.get(index, 0), out)

    def body(self, document: Any, out: list[Event]) -> None:
        for choice, result in enumerate(
            objects(document if type(document) is list else [document])
        ):
            failure(result, out)
            text(choice, Channel.CONTENT, result.get("text"), 0, out)
            self._meta(choice, result.get("meta_info"), 0, out)

    def _meta(self, choice: int, meta: Any, known: int, out: list[Event]) -> None:
        if type(meta) is not dict:
            return
        self._logprobs(choice, meta, known, out)
        reason = meta.get("finish_reason")
        if reason:
            finish(choice, reason.get("type") if type(reason) is dict else reason, out)
            out.append(
                Usage(
                    integer(meta.get("prompt_tokens"), -1),
                    integer(meta.get("completion_tokens"), -1),
                )
            )

    def _logprobs(self, choice: int, meta: Json, known: int, out: list[Event]) -> None:
        entries = meta.get("output_token_logprobs")  # [[logprob, id, text or null], ...]
        if type(entries) is not list:
            return
        fresh = [e for e in entries[known:] if type(e) is list and e]
        self._counts[choice] = max(known, len(entries))
        if fresh:
            out.append(
                Logprobs(
                    choice,
                    tuple(string(e[2]) if len(e) > 2 else "" for e in fresh),
                    tuple(number(e[0]) for e in fresh),
                )
            )
