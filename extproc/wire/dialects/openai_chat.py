"""OpenAI chat completions, as vLLM, SGLang, llama.cpp, LMDeploy and others serve them."""

from __future__ import annotations

from typing import Any

from extproc.wire.dialects.base import (
    Dialect,
    Json,
    failure,
    finish,
    integer,
    objects,
    string,
    text,
    token_logprobs,
    usage,
)
from extproc.wire.events import Channel, Event, Text, ToolCall


class OpenAIChat(Dialect):
    """``choices[].delta`` when streamed, ``choices[].message`` when whole."""

    __slots__ = ()

    uniform = True

    terminator = "[DONE]"
    finishes = True

    def chunk(self, event: bytes, document: Any, out: list[Event]) -> None:
        self._read(document, "delta", "message", 1, out)

    def body(self, document: Any, out: list[Event]) -> None:
        self._read(document, "message", "delta", 0, out)

    def _read(self, document: Any, key: str, other: str, tokens: int, out: list[Event]) -> None:
        if type(document) is not dict:
            return
        if "error" in document or document.get("object") == "error":
            failure(document, out)
        choices = document.get("choices")
        if type(choices) is list:
            for choice in choices:
                if type(choice) is dict:
                    message = choice.get(key)
                    self._choice(
                        choice, choice.get(other) if message is None else message, tokens, out
                    )
        if document.get("usage"):
            usage(document, out)

    def _choice(self, choice: Json, message: Any, tokens: int, out: list[Event]) -> None:
        index = choice.get("index", 0)
        if type(index) is not int:
            index = 0
        if type(message) is dict:
            content = message.get("content")
            # The first delta often carries the role and an empty text: no token stands behind it.
            if content or (type(content) is str and tokens and "role" not in message):
                self._content(index, content, tokens, out)
            # vLLM renamed reasoning_content to reasoning; some servers send both, alike.
            reasoning = message.get("reasoning") or message.get("reasoning_content")
            if reasoning:
                text(index, Channel.REASONING, reasoning, tokens, out)
            if refusal := message.get("refusal"):
                text(index, Channel.REFUSAL, refusal, tokens, out)
            if "tool_calls" in message:
                self._tools(index, message["tool_calls"], tokens, out)
            if "function_call" in message:  # the API before tool_calls
                self._tools(index, [{"function": message["function_call"]}], tokens, out)
        logprobs = choice.get("logprobs")
        if type(logprobs) is dict:
            token_logprobs(index, logprobs.get("content"), out)
        if reason := choice.get("finish_reason"):
            finish(index, reason, out)

    def _content(self, index: int, content: Any, tokens: int, out: list[Event]) -> None:
        if type(content) is str:
            out.append(Text(index, Channel.CONTENT, content, tokens))
            return
        # Content parts: {"type": "text", "text": "..."}, {"type": "thinking", "thinking": [...]}
        for piece in objects(content):
            text(index, Channel.CONTENT, piece.get("text"), tokens, out)
            thinking = piece.get("thinking")
            text(index, Channel.REASONING, thinking, tokens, out)
            for inner in objects(thinking):
                text(index, Channel.REASONING, inner.get("text"), tokens, out)

    def _tools(self, index: int, calls: Any, tokens: int, out: list[Event]) -> None:
        for position, call in enumerate(objects(calls)):
            part = integer(call.get("index"), position)
            function = call.get("function")
            if type(function) is not dict:
                continue
            if name := function.get("name"):
                out.append(ToolCall(index, part, string(name)))
            if arguments := function.get("arguments"):
                text(index, Channel.TOOL_ARGUMENTS, arguments, tokens, out, part)
