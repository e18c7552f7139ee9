"""OpenAI Responses: typed events when streamed, a list of output items when whole.

What streams as deltas comes again, whole, in ``*.done`` events and in the last one; a server that
sends only those is read from them.
"""

from __future__ import annotations

import re
from typing import Any

from extproc.wire.dialects.base import (
    Dialect,
    Json,
    failure,
    finish,
    objects,
    string,
    text,
    token_logprobs,
    usage,
)
from extproc.wire.events import Channel, Event, Terminator, ToolCall

_MAX_PARTS = 256
"""Output items told apart."""

_TYPE = re.compile(rb'"type"\s*:\s*"(response\.[a-z_.]{1,60})"')

_STREAMED = {
    "response.output_text": (Channel.CONTENT, "text"),
    "response.reasoning_text": (Channel.REASONING, "text"),
    "response.reasoning": (Channel.REASONING, "text"),
    "response.reasoning_summary_text": (Channel.REASONING, "text"),
    "response.reasoning_summary": (Channel.REASONING, "text"),
    "response.refusal": (Channel.REFUSAL, "refusal"),
    "response.function_call_arguments": (Channel.TOOL_ARGUMENTS, "arguments"),
    "response.mcp_call_arguments": (Channel.TOOL_ARGUMENTS, "arguments"),
    "response.custom_tool_call_input": (Channel.TOOL_ARGUMENTS, "input"),
    "response.code_interpreter_call_code": (Channel.TOOL_ARGUMENTS, "code"),
}
"""Event name without ``.delta`` or ``.done`` -> channel, and the field of the whole text."""

_LAST = ("response.completed", "response.incomplete", "response.failed")


class OpenAIResponses(Dialect):
    """Everything belongs to choice 0; ``part`` is the output item's index."""

    __slots__ = ("_parts", "_seen")

    terminator = "response.completed"
    finishes = True

    def __init__(self) -> None:
        super().__init__()
        self._parts: dict[str, int] = {}  # item ids -> part, where the server sends no index
        self._seen: set[tuple[Channel, int]] = set()  # what came as deltas

    def chunk(self, event: bytes, document: Any, out: list[Event]) -> None:
        if type(document) is not dict:
            return
        kind = string(document.get("type")) or event.decode(errors="replace")
        name, _, step = kind.rpartition(".")
        streamed = _STREAMED.get(name)
        if streamed is not None:
            self._text(document, streamed, step, out)
        elif kind in ("response.output_item.added", "response.output_item.done"):
            item = document.get("item")
            if type(item) is dict and step == "added" and "name" in item:
                out.append(ToolCall(0, self._part(document, item), string(item["name"])))
        elif kind in _LAST:
            self._last(document.get("response"), out)
        elif kind == "error" or "error" in document:
            failure(document if document.get("error") else {"error": document}, out)

    def body(self, document: Any, out: list[Event]) -> None:
        if type(document) is not dict:
            return
        for part, item in enumerate(objects(document.get("output"))):
            self._item(part, item, out)
        self._end(document, out)

    def overlong(self, event: bytes, head: bytes, out: list[Event]) -> bool:
        found = _TYPE.search(head)
        kind = found[1].decode() if found else event.decode(errors="replace")
        if kind in _LAST:
            self.terminated = True
            finish(0, kind.removeprefix("response."), out)
            out.append(Terminator())
            return True
        return kind.endswith(".done")

    def _part(self, document: Json, item: Json) -> int:
        index = document.get("output_index")
        if type(index) is int:
            return index
        name = string(document.get("item_id")) or string(item.get("id"))
        if name not in self._parts and len(self._parts) < _MAX_PARTS:
            self._parts[name] = len(self._parts)
        return self._parts.get(name, _MAX_PARTS)

    def _text(
        self, document: Json, streamed: tuple[Channel, str], step: str, out: list[Event]
    ) -> None:
        channel, field = streamed
        part = self._part(document, document)
        if step == "delta":
            if len(self._seen) < _MAX_PARTS:
                self._seen.add((channel, part))
            text(0, channel, document.get("delta"), 1, out, part)
        elif step == "done" and (channel, part) not in self._seen and len(self._seen) < _MAX_PARTS:
            self._seen.add((channel, part))
            text(0, channel, document.get(field), 0, out, part)
        else:
            return
        if document.get("logprobs"):
            token_logprobs(0, document["logprobs"], out)

    def _last(self, response: Any, out: list[Event]) -> None:
        self.terminated = True
        if type(response) is dict:
            if not self._seen:
                for part, item in enumerate(objects(response.get("output"))):
                    self._item(part, item, out)
            self._end(response, out)
        out.append(Terminator())

    def _end(self, response: Json, out: list[Event]) -> None:
        failure(response, out)
        reason = response.get("status")
        details = response.get("incomplete_details")
        if type(details) is dict and details.get("reason"):
            reason = details["reason"]
        if reason not in ("in_progress", "queued"):
            finish(0, reason, out)
        usage(response, out)

    def _item(self, part: int, item: Json, out: list[Event]) -> None:
        kind = string(item.get("type"))
        channel = Channel.REASONING if kind == "reasoning" else Channel.CONTENT
        for field in ("summary", "content"):
            for piece in objects(item.get(field)):
                text(0, channel, piece.get("text"), 0, out, part)
                text(0, Channel.REFUSAL, piece.get("refusal"), 0, out, part)
                token_logprobs(0, piece.get("logprobs"), out)
        if kind.endswith("_call") and "name" in item:
            out.append(ToolCall(0, part, string(item["name"])))
        for field in ("arguments", "input", "code"):
            text(0, Channel.TOOL_ARGUMENTS, item.get(field), 0, out, part)
