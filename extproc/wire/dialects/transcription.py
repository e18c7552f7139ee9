"""Speech transcription and translation: JSON, verbose JSON, plain text, subtitles, and streams."""

from __future__ import annotations

import re
from typing import Any

from extproc.wire.dialects.base import (
    Dialect,
    failure,
    objects,
    string,
    text,
    token_logprobs,
    usage,
)
from extproc.wire.dialects.openai_chat import OpenAIChat
from extproc.wire.events import Channel, Event, Terminator

_CUE = re.compile(
    r"^(?:WEBVTT.*|\d+(?=\n[\d:.,]+ --> )|(?:\d+:)?\d\d:\d\d[.,]\d{3} --> .*)$\n?", re.MULTILINE
)
"""What SRT and WebVTT put around the text: cue numbers and times."""


class Transcription(Dialect):
    """Text belongs to choice 0. Segments repeat the text and are read only without it."""

    __slots__ = ("_chat", "_streamed")

    terminator = "transcript.text.done"

    def __init__(self) -> None:
        super().__init__()
        self._chat = OpenAIChat()  # vLLM streams transcriptions as chat deltas
        self._streamed = False

    def chunk(self, event: bytes, document: Any, out: list[Event]) -> None:
        if type(document) is not dict:
            return
        kind = document.get("type")
        if kind == "transcript.text.delta":
            self._streamed = True
            text(0, Channel.CONTENT, document.get("delta"), 1, out)
            token_logprobs(0, document.get("logprobs"), out)
        elif kind == "transcript.text.done":
            if not self._streamed:
                text(0, Channel.CONTENT, document.get("text"), 0, out)
                token_logprobs(0, document.get("logprobs"), out)
            usage(document, out)
            self.terminated = True
            out.append(Terminator())
        elif "choices" in document:
            self._chat.chunk(event, document, out)
        elif not failure(document, out) and type(document.get("text")) is str:
            text(0, Channel.CONTENT, document["text"], 0, out)  # a segment at a time

    def body(self, document: Any, out: list[Event]) -> None:
        if type(document) is str:
            if " --> " in document:
                document = _CUE.sub("", document.replace("\r\n", "\n"))
            text(0, Channel.CONTENT, document, 0, out)
        elif type(document) is dict:
            failure(document, out)
            whole = document.get("text")
            if type(whole) is not str:
                whole = "".join(string(s.get("text")) for s in objects(document.get("segments")))
            text(0, Channel.CONTENT, whole, 0, out)
            token_logprobs(0, document.get("logprobs"), out)
            usage(document, out)
