"""Which dialect and framing a response has: by path and content-type, before its first byte."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from extproc.wire.dialects import DIALECTS, Dialect
from extproc.wire.framing import Framing

PATHS: Mapping[str, str] = MappingProxyType(
    {
        "/chat/completions": "openai.chat",
        "/v1/completions": "openai.completions",
        "/responses": "openai.responses",
        "/messages": "anthropic.messages",
        "/embeddings": "embeddings",
        "/embedding": "embeddings",
        "/embed": "embeddings",
        "/embed_all": "embeddings",
        "/embed_sparse": "embeddings",
        "/pooling": "embeddings",
        "/rerank": "rerank",
        "/reranking": "rerank",
        "/score": "rerank",
        "/ranking": "rerank",
        "/similarity": "rerank",
        "/audio/transcriptions": "transcription",
        "/audio/translations": "transcription",
        "/completion": "llama.cpp",
        "/infill": "llama.cpp",
        "/api/chat": "ollama",
        "/api/generate": "ollama",
        # "/completions" is OpenAI's here and llama.cpp's there, "/generate" TGI's, SGLang's or
        # Triton's: the body tells.
    }
)
"""Path endings -> dialect; the longest match wins, so that gateways may mount APIs anywhere."""

SILENT = (
    *("/models", "/health", "/health_generate", "/healthz", "/ready", "/ping", "/version", "/info"),
    *("/metrics", "/props", "/slots", "/tokenize", "/detokenize", "/count_tokens", "/api/tags"),
    *("/api/ps", "/api/version", "/api/show", "/get_model_info", "/get_server_info", "/load"),
)
"""Path endings of inference servers under which nothing is generated."""

_FRAMINGS = {
    "": Framing.JSON,
    "text/event-stream": Framing.SSE,
    "application/json": Framing.JSON,
    "text/json": Framing.JSON,
    "application/octet-stream": Framing.JSON,
    "application/x-ndjson": Framing.NDJSON,
    "application/ndjson": Framing.NDJSON,
    "application/jsonl": Framing.NDJSON,
    "application/x-jsonlines": Framing.NDJSON,
    "application/jsonlines": Framing.NDJSON,
    "application/json-seq": Framing.NDJSON,
    "application/stream+json": Framing.NDJSON,
    "application/x-json-stream": Framing.NDJSON,
    "text/plain": Framing.TEXT,
    "text/vtt": Framing.TEXT,
    "text/srt": Framing.TEXT,
    "application/x-subrip": Framing.TEXT,
}

_SHORT = 256


def _framing(content_type: str) -> Framing | None:
    media = content_type.partition(";")[0].strip().lower()
    framing = _FRAMINGS.get(media)
    if framing is None and media.endswith("+json"):
        return Framing.JSON
    return framing


@dataclass(frozen=True, slots=True)
class Route:
    """How to read one response. ``framing`` is what the headers promise; a Reader checks it."""

    dialect: str
    framing: Framing

    def new_dialect(self) -> Dialect:
        """A fresh dialect for one response."""
        return DIALECTS[self.dialect]()


class Router:
    """Chooses a Route. ``paths`` are path endings of the operator's own, which come first."""

    def __init__(self, paths: Mapping[str, str] = MappingProxyType({})) -> None:
        unknown = sorted(set(paths.values()) - set(DIALECTS))
        if unknown:
            raise ValueError(f"no such dialect: {', '.join(unknown)}; known: {', '.join(DIALECTS)}")
        self._own = _longest_first(paths)
        # The same few paths come with every response; a long one is a client's own.
        self._met = lru_cache(maxsize=512)(self._find)
        self._known = _longest_first(PATHS)

    def route(self, path: str, content_type: str) -> Route | None:
        """The route of a response, or None when nothing here can read it.

        A path that is not known gets the dialect ``auto``, unless its body is declared as text.
        """
        short = len(path) + len(content_type) <= _SHORT
        return (self._met if short else self._find)(path, content_type)

    def _find(self, path: str, content_type: str) -> Route | None:
        framing = _framing(content_type)
        if framing is None:
            return None
        path = path.partition("?")[0].rstrip("/")
        for ending, dialect in self._own:
            if path.endswith(ending):
                return Route(dialect, framing)
        for ending, dialect in self._known:
            if path.endswith(ending):
                return Route(dialect, framing)
        if framing is Framing.TEXT or path.endswith(SILENT):
            return None
        return Route("auto", framing)


def _longest_first(paths: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(paths.items(), key=lambda item: -len(item[0])))
