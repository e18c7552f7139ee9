"""llama.cpp's native ``/completion`` and ``/infill``."""

from __future__ import annotations

import re
from typing import Any

from extproc.wire.dialects.base import (
    Dialect,
    Json,
    failure,
    finish,
    integer,
    objects,
    text,
    token_logprobs,
)
from extproc.wire.events import Channel, Event, Terminator, Usage

_STOP = re.compile(rb'"stop"\s*:\s*true')
_STOP_TYPE = re.compile(rb'"stop_type"\s*:\s*"([a-z]{1,20})"')

_OLDER = (("stopped_eos", "eos"), ("stopped_word", "word"), ("stopped_limit", "limit"))
"""Flags of older servers -> ``stop_type``."""


class LlamaCpp(Dialect):
    """The same document shape whether streamed or whole; several prompts give a list of them."""

    __slots__ = ()

    terminator = '"stop": true'
    finishes = True

    def chunk(self, event: bytes, document: Any, out: list[Event]) -> None:
        if type(document) is dict:
            self._read(document, True, out)

    def body(self, document: Any, out: list[Event]) -> None:
        for result in objects(document if type(document) is list else [document]):
            self._read(result, False, out)

    def overlong(self, event: bytes, head: bytes, out: list[Event]) -> bool:
        if not _STOP.search(head):  # the last message repeats the prompt and all settings
            return False
        kind = _STOP_TYPE.search(head)
        finish(0, kind[1].decode() if kind else "other", out)
        self.terminated = True
        out.append(Terminator())
        return True

    def _read(self, result: Json, streamed: bool, out: list[Event]) -> None:
        failure(result, out)
        index = integer(result.get("index"), 0)
        last = result.get("stop") is True
        ids = result.get("tokens")
        # A delta without token ids is a piece held back for its stop word or its UTF-8.
        tokens = (len(ids) if type(ids) is list else 1) if streamed and not last else 0
        text(index, Channel.CONTENT, result.get("content"), tokens, out)
        if not (streamed and last):  # the last message of a stream may list them all again
            token_logprobs(index, result.get("completion_probabilities"), out)
        if last:
            flags = [kind for flag, kind in _OLDER if result.get(flag) is True]
            finish(index, result.get("stop_type") or (flags[0] if flags else "stop"), out)
            out.append(
                Usage(
                    integer(result.get("tokens_evaluated"), -1),
                    integer(result.get("tokens_predicted"), -1),
                )
            )
            if streamed:
                self.terminated = True
                out.append(Terminator())
