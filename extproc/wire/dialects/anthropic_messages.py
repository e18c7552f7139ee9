"""Anthropic messages: content blocks, streamed as typed events and complete at message_stop."""

from __future__ import annotations

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
    usage,
)
from extproc.wire.events import Channel, Event, Terminator, ToolCall

_DELTAS = {
    "text_delta": (Channel.CONTENT, "text"),
    "thinking_delta": (Channel.REASONING, "thinking"),
    "input_json_delta": (Channel.TOOL_ARGUMENTS, "partial_json"),
}
"""Delta type -> channel and field. signature_delta and citations_delta hold no generated text."""


class AnthropicMessages(Dialect):
    """Everything belongs to choice 0; ``part`` is the content block's index."""

    __slots__ = ()

    uniform = True

    terminator = "message_stop"
    finishes = True

    def chunk(self, event: bytes, document: Any, out: list[Event]) -> None:
        if type(document) is not dict:
            return
        kind = document.get("type") or event.decode(errors="replace")
        if kind == "content_block_delta":
            delta = document.get("delta")
            if type(delta) is dict:
                channel, field = _DELTAS.get(string(delta.get("type")), (None, ""))
                if channel is not None:
                    part = integer(document.get("index"), 0)
                    text(0, channel, delta.get(field), 1, out, part)
        elif kind == "content_block_start":
            block = document.get("content_block")
            if type(block) is dict:
                self._block(integer(document.get("index"), 0), block, out)
        elif kind == "message_delta":
            delta = document.get("delta")
            if type(delta) is dict:
                finish(0, delta.get("stop_reason"), out)
            usage(document, out)
        elif kind == "message_start":
            message = document.get("message")
            if type(message) is dict:
                self._message(message, out)
        elif kind == "message_stop":
            self.terminated = True
            out.append(Terminator())
        elif kind == "error" or "error" in document:
            failure(document if document.get("error") else {"error": document}, out)

    def body(self, document: Any, out: list[Event]) -> None:
        if type(document) is dict:
            failure(document, out)
            self._message(document, out)

    def _message(self, message: Json, out: list[Event]) -> None:
        for part, block in enumerate(objects(message.get("content"))):
            self._block(part, block, out)
        finish(0, message.get("stop_reason"), out)
        usage(message, out)

    def _block(self, part: int, block: Json, out: list[Event]) -> None:
        text(0, Channel.CONTENT, block.get("text"), 0, out, part)
        text(0, Channel.REASONING, block.get("thinking"), 0, out, part)
        if string(block.get("type")).endswith("tool_use"):
            out.append(ToolCall(0, part, string(block.get("name"))))
            # A stream opens the block with {} and sends the arguments as deltas.
            if arguments := block.get("input"):
                text(0, Channel.TOOL_ARGUMENTS, compact(arguments), 0, out, part)
