"""Ollama's ``/api/chat`` and ``/api/generate``: NDJSON, or one document of the same shape."""

from __future__ import annotations

import re
from typing import Any

from extproc.wire.dialects.base import (
    Dialect,
    Json,
    compact,
    failure,
    finish,
    integer,
    objects,
    string,
    text,
    token_logprobs,
)
from extproc.wire.events import Channel, Event, Terminator, ToolCall, Usage

_DONE = re.compile(rb'"done"\s*:\s*true')
_DONE_REASON = re.compile(rb'"done_reason"\s*:\s*"([a-z_]{1,20})"')


class Ollama(Dialect):
    """``message.content`` in a chat, ``response`` in a generation. Tool calls arrive whole."""

    __slots__ = ("_calls",)

    terminator = '"done": true'
    finishes = True
    lines = True

    def __init__(self) -> None:
        super().__init__()
        self._calls = 0

    def chunk(self, event: bytes, document: Any, out: list[Event]) -> None:
        if type(document) is dict:
            self._read(document, True, out)

    def body(self, document: Any, out: list[Event]) -> None:
        if type(document) is dict:
            self._read(document, False, out)

    def overlong(self, event: bytes, head: bytes, out: list[Event]) -> bool:
        if not _DONE.search(head):  # the last line of a generation lists its context's tokens
            return False
        reason = _DONE_REASON.search(head)
        finish(0, reason[1].decode() if reason else "stop", out)
        self.terminated = True
        out.append(Terminator())
        return True

    def _read(self, document: Json, streamed: bool, out: list[Event]) -> None:
        failure(document, out)
        done = document.get("done") is True
        message = document.get("message")
        if type(message) is not dict:
            message = {"content": document.get("response"), "thinking": document.get("thinking")}
        thinking = message.get("thinking")
        calls = message.get("tool_calls")
        tokens = 1 if streamed and not done else 0
        text(0, Channel.REASONING, thinking, tokens if thinking else 0, out)
        text(0, Channel.CONTENT, message.get("content"), 0 if thinking or calls else tokens, out)
        for call in objects(calls):
            function = call.get("function")
            if type(function) is dict:
                out.append(ToolCall(0, self._calls, string(function.get("name"))))
                if arguments := function.get("arguments"):
                    whole = arguments if type(arguments) is str else compact(arguments)
                    text(0, Channel.TOOL_ARGUMENTS, whole, tokens, out, self._calls)
                self._calls += 1
        token_logprobs(0, document.get("logprobs"), out)
        if done:
            finish(0, document.get("done_reason") or "stop", out)
            out.append(
                Usage(
                    integer(document.get("prompt_eval_count"), -1),
                    integer(document.get("eval_count"), -1),
                )
            )
            if streamed:
                self.terminated = True
                out.append(Terminator())
