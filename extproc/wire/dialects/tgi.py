"""Text Generation Inference: ``/generate`` and ``/generate_stream``."""

from __future__ import annotations

import re
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
from extproc.wire.events import Channel, Event, Logprobs, Terminator, Text, Usage

_LAST = re.compile(rb'"generated_text"\s*:\s*"')


class TGI(Dialect):
    """One token a message; the last one brings the whole text again, and details if asked for."""

    __slots__ = ()

    terminator = '"generated_text"'

    def chunk(self, event: bytes, document: Any, out: list[Event]) -> None:
        if type(document) is not dict:
            return
        failure(document, out)
        token = document.get("token")
        if type(token) is dict:
            # A special token (the end of sequence) counts as a token but is no text.
            piece = "" if token.get("special") is True else string(token.get("text"))
            out.append(Text(0, Channel.CONTENT, piece, 1))
            self._logprobs([token], [document.get("top_tokens")], out)
        if type(document.get("generated_text")) is str:
            self._details(document.get("details"), out)
            self.terminated = True
            out.append(Terminator())

    def body(self, document: Any, out: list[Event]) -> None:
        for choice, result in enumerate(
            objects(document if type(document) is list else [document])
        ):
            failure(result, out)
            text(choice, Channel.CONTENT, result.get("generated_text"), 0, out)
            details = result.get("details")
            if type(details) is dict:
                tops = details.get("top_tokens")
                self._logprobs(
                    objects(details.get("tokens")), tops if type(tops) is list else [], out, choice
                )
                self._details(details, out, choice)

    def overlong(self, event: bytes, head: bytes, out: list[Event]) -> bool:
        if not _LAST.search(head):
            return False
        finish(0, "other", out)
        self.terminated = True
        out.append(Terminator())
        return True

    def _details(self, details: Any, out: list[Event], choice: int = 0) -> None:
        if type(details) is dict:
            finish(choice, details.get("finish_reason"), out)
            prefill = details.get("prefill")
            out.append(
                Usage(
                    integer(details.get("input_length"), -1)
                    if "input_length" in details
                    else (len(prefill) if type(prefill) is list and prefill else -1),
                    integer(details.get("generated_tokens"), -1),
                )
            )

    def _logprobs(
        self, tokens: list[Json], tops: list[Any], out: list[Event], choice: int = 0
    ) -> None:
        if not any("logprob" in token for token in tokens):
            return
        out.append(
            Logprobs(
                choice,
                tuple(string(token.get("text")) for token in tokens),
                tuple(number(token.get("logprob")) for token in tokens),
                tuple(tuple(number(top.get("logprob")) for top in objects(row)) for row in tops),
            )
        )
