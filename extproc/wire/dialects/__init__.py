"""One small file a dialect: a JSON document of that API -> events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from extproc.wire.dialects.anthropic_messages import AnthropicMessages
from extproc.wire.dialects.base import Dialect
from extproc.wire.dialects.embeddings import Embeddings
from extproc.wire.dialects.llama_cpp import LlamaCpp
from extproc.wire.dialects.ollama import Ollama
from extproc.wire.dialects.openai_chat import OpenAIChat
from extproc.wire.dialects.openai_completions import OpenAICompletions
from extproc.wire.dialects.openai_responses import OpenAIResponses
from extproc.wire.dialects.rerank import Rerank
from extproc.wire.dialects.sglang import SGLang
from extproc.wire.dialects.sniffing import Sniffing
from extproc.wire.dialects.tgi import TGI
from extproc.wire.dialects.transcription import Transcription
from extproc.wire.dialects.triton import Triton

DIALECTS: Mapping[str, Callable[[], Dialect]] = MappingProxyType(
    {
        "openai.chat": OpenAIChat,
        "openai.completions": OpenAICompletions,
        "openai.responses": OpenAIResponses,
        "anthropic.messages": AnthropicMessages,
        "embeddings": Embeddings,
        "rerank": Rerank,
        "transcription": Transcription,
        "llama.cpp": LlamaCpp,
        "ollama": Ollama,
        "sglang": SGLang,
        "tgi": TGI,
        "triton": Triton,
        "auto": Sniffing,
    }
)
"""Dialects by the names that the configuration uses; ``auto`` decides by the body."""

__all__ = ["DIALECTS", "Dialect"]
