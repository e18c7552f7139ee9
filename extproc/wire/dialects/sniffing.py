"""The dialect of a path that tells nothing: decided by the first document that shows one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from extproc.wire.dialects.anthropic_messages import AnthropicMessages
from extproc.wire.dialects.base import Dialect, failure, string
from extproc.wire.dialects.embeddings import Embeddings
from extproc.wire.dialects.llama_cpp import LlamaCpp
from extproc.wire.dialects.ollama import Ollama
from extproc.wire.dialects.openai_chat import OpenAIChat
from extproc.wire.dialects.openai_completions import OpenAICompletions
from extproc.wire.dialects.openai_responses import OpenAIResponses
from extproc.wire.dialects.rerank import Rerank
from extproc.wire.dialects.sglang import SGLang
from extproc.wire.dialects.tgi import TGI
from extproc.wire.dialects.transcription import Transcription
from extproc.wire.dialects.triton import Triton
from extproc.wire.events import Event

_ANTHROPIC = ("message", "message_start", "content_block_start", "content_block_delta")


class Sniffing(Dialect):
    """Reads as the dialect it has recognised; before that, only error objects."""

    __slots__ = ("_chosen",)

    lines = True

    def __init__(self) -> None:
        super().__init__()
        self._chosen: Dialect | None = None

    @property
    def chosen(self) -> Dialect:
        """The dialect that was recognised; this one while there is none."""
        return self._chosen or self

    def chunk(self, event: bytes, document: Any, out: list[Event]) -> None:
        chosen = self._choose(document, out)
        if chosen is not None:
            chosen.chunk(event, document, out)

    def body(self, document: Any, out: list[Event]) -> None:
        chosen = self._choose(document, out)
        if chosen is not None:
            chosen.body(document, out)

    def overlong(self, event: bytes, head: bytes, out: list[Event]) -> bool:
        return self._chosen is not None and self._chosen.overlong(event, head, out)

    def _choose(self, document: Any, out: list[Event]) -> Dialect | None:
        if self._chosen is None:
            make = recognise(document)
            if make is not None:
                self._chosen = make()
            elif type(document) is dict:
                failure(document, out)
        return self._chosen


def recognise(document: Any) -> Callable[[], Dialect] | None:
    """The dialect that a document speaks, by fields that no other has; None if none shows."""
    if type(document) is dict:
        return _object(document)
    if type(document) is list and document:
        first = document[0]
        if type(first) is dict:
            if "score" in first:
                return Rerank
            return Embeddings if "embedding" in first else _object(first)
        if type(first) is list:
            return Embeddings
    if type(document) is str:
        return Transcription
    return None


def _object(document: dict[str, Any]) -> Callable[[], Dialect] | None:
    kind = string(document.get("type"))
    if kind.startswith("response.") or document.get("object") == "response":
        return OpenAIResponses
    if kind in _ANTHROPIC:
        return AnthropicMessages
    if kind.startswith("transcript."):
        return Transcription
    if type(document.get("choices")) is list:
        return _choices(document, document["choices"])
    if "done" in document and ("message" in document or "response" in document):
        return Ollama
    if "text_output" in document:
        return Triton
    if "generated_text" in document or type(document.get("token")) is dict:
        return TGI
    if "meta_info" in document:
        return SGLang
    if type(document.get("content")) is str and ("stop" in document or "tokens" in document):
        return LlamaCpp
    return _numbers(document)


def _choices(document: dict[str, Any], choices: list[Any]) -> Callable[[], Dialect]:
    first = choices[0] if choices else None
    if type(first) is dict and "text" in first:
        return OpenAICompletions
    if not choices and document.get("object") == "text_completion":
        return OpenAICompletions
    return OpenAIChat


def _numbers(document: dict[str, Any]) -> Callable[[], Dialect] | None:
    if "embedding" in document or "embeddings" in document:
        return Embeddings
    if "results" in document or "rankings" in document:
        return Rerank
    data = document.get("data")
    first = data[0] if type(data) is list and data else None
    if type(first) is dict:
        if "embedding" in first:
            return Embeddings
        if "score" in first or "relevance_score" in first:
            return Rerank
    if type(document.get("text")) is str or "segments" in document:
        return Transcription
    return None
