"""Which dialect and framing a response has: by path and content-type, before its first byte."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from extproc.wire.dialects import Dialect, OpenAIChat, OpenAICompletions
from extproc.wire.reader import Framing

DIALECTS: Mapping[str, Callable[[], Dialect]] = MappingProxyType(
    {
        "openai.chat": OpenAIChat,
        "openai.completions": OpenAICompletions,
    }
)
"""Dialects by the names that the configuration uses."""

PATHS: Mapping[str, str] = MappingProxyType(
    {
        "/chat/completions": "openai.chat",
        "/completions": "openai.completions",
    }
)
"""Path endings -> dialect; the longest match wins, so that gateways may mount APIs anywhere."""

_FRAMINGS = {
    "text/event-stream": Framing.SSE,
    "application/json": Framing.JSON,
    "application/x-ndjson": Framing.NDJSON,
    "application/jsonl": Framing.NDJSON,
}


@dataclass(frozen=True, slots=True)
class Route:
    """How to read one response."""

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
        merged = sorted({**PATHS, **paths}.items(), key=lambda item: -len(item[0]))
        self._paths = tuple(merged)

    def route(self, path: str, content_type: str) -> Route | None:
        """The route of a response, or None when nothing here can read it."""
        framing = _FRAMINGS.get(content_type.partition(";")[0].strip().lower())
        if framing is None:
            return None
        path = path.partition("?")[0].rstrip("/")
        for ending, dialect in self._paths:
            if path.endswith(ending):
                return Route(dialect, framing)
        return None
