"""OpenAI chat completions, as vLLM, SGLang, llama.cpp, LMDeploy and others serve them."""

from __future__ import annotations

from typing import Any

from extproc.wire.dialects.base import (
    Json,
    failure,
    integer,
    objects,
    string,
    token_logprobs,
    usage,
)
from extproc.wire.events import Channel, Event, Finish, Text, ToolCall


class OpenAIChat:
    """``choices[].delta`` when streamed, ``choices[].message`` when whole."""

    __slots__ = ()

    def chunk(self, event: bytes, document: Any, out: list[Event]) -> None:
        if type(document) is dict and not failure(document, out):
            for choice in objects(document.get("choices")):
                self._choice(choice, choice.get("delta"), 1, out)
            usage(document, out)

    def body(self, document: Any, out: list[Event]) -> None:
        if type(document) is dict and not failure(document, out):
            for choice in objects(document.get("choices")):
                self._choice(choice, choice.get("message"), 0, out)
            usage(document, out)

    def _choice(self, choice: Json, message: Any, tokens: int, out: list[Event]) -> None:
        index = integer(choice.get("index"), 0)
        if type(message) is dict:
            content = message.get("content")
            # The first delta often carries the role and an empty text: no token stands behind it.
            if content or (type(content) is str and tokens and "role" not in message):
                self._content(index, content, tokens, out)
            # vLLM renamed reasoning_content to reasoning; some servers send both, alike.
            reasoning = message.get("reasoning") or message.get("reasoning_content")
            if reasoning:
                out.append(Text(index, Channel.REASONING, string(reasoning), tokens))
            if refusal := message.get("refusal"):
                out.append(Text(index, Channel.REFUSAL, string(refusal), tokens))
            if "tool_calls" in message:
                self._tools(index, message["tool_calls"], tokens, out)
        logprobs = choice.get("logprobs")
        if type(logprobs) is dict:
            token_logprobs(index, logprobs.get("content"), out)
        if reason := choice.get("finish_reason"):
            out.append(Finish(index, string(reason)))

    def _content(self, index: int, content: Any, tokens: int, out: list[Event]) -> None:
        if type(content) is str:
            out.append(Text(index, Channel.CONTENT, content, tokens))
            return
        out.extend(  # content parts: [{"type": "text", "text": "..."}]
            Text(index, Channel.CONTENT, string(part.get("text")), tokens)
            for part in objects(content)
        )

    def _tools(self, index: int, calls: Any, tokens: int, out: list[Event]) -> None:
        for position, call in enumerate(objects(calls)):
            part = integer(call.get("index"), position)
            function = call.get("function")
            if type(function) is not dict:
                continue
            if name := function.get("name"):
                out.append(ToolCall(index, part, string(name)))
            if arguments := function.get("arguments"):
                out.append(Text(index, Channel.TOOL_ARGUMENTS, string(arguments), tokens, part))
