"""One small file a dialect: a JSON document of that API -> events."""

from extproc.wire.dialects.base import Dialect
from extproc.wire.dialects.openai_chat import OpenAIChat
from extproc.wire.dialects.openai_completions import OpenAICompletions

__all__ = ["Dialect", "OpenAIChat", "OpenAICompletions"]
