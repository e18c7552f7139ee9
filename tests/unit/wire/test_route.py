"""Which dialect and framing a response gets."""

from __future__ import annotations

import pytest

from extproc.wire import Framing, Route, Router


@pytest.mark.parametrize(
    ("path", "content_type", "dialect", "framing"),
    [
        ("/v1/chat/completions", "text/event-stream", "openai.chat", Framing.SSE),
        ("/v1/chat/completions?x=1", "application/json; charset=utf-8", "openai.chat", "json"),
        ("/openai/deployments/m/chat/completions/", "Application/JSON", "openai.chat", "json"),
        ("/v1/chat/completions", "", "openai.chat", Framing.JSON),
        ("/v1/completions", "text/event-stream", "openai.completions", Framing.SSE),
        ("/completions", "text/event-stream", "auto", Framing.SSE),
        ("/v1/responses", "text/event-stream", "openai.responses", Framing.SSE),
        ("/v1/messages", "text/event-stream", "anthropic.messages", Framing.SSE),
        ("/v1/embeddings", "application/json", "embeddings", Framing.JSON),
        ("/embed", "application/json", "embeddings", Framing.JSON),
        ("/v2/rerank", "application/json", "rerank", Framing.JSON),
        ("/score", "application/json", "rerank", Framing.JSON),
        ("/completion", "text/event-stream", "llama.cpp", Framing.SSE),
        ("/api/generate", "application/x-ndjson", "ollama", Framing.NDJSON),
        ("/generate_stream", "text/event-stream", "auto", Framing.SSE),
        ("/v2/models/m/generate", "application/vnd.x+json", "auto", Framing.JSON),
        ("/v1/audio/transcriptions", "text/plain; charset=utf-8", "transcription", "text"),
        ("/anything", "application/json", "auto", Framing.JSON),
    ],
)
def test_known_paths(path: str, content_type: str, dialect: str, framing: str) -> None:
    assert Router().route(path, content_type) == Route(dialect, Framing(framing))


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("/v1/chat/completions", "image/png"),
        ("/anything", "text/html"),
        ("/anything", "text/plain"),
        ("/v1/models", "application/json"),
        ("/v1/messages/count_tokens", "application/json"),
    ],
)
def test_what_cannot_be_read_has_no_route(path: str, content_type: str) -> None:
    assert Router().route(path, content_type) is None


def test_the_operators_paths_come_first() -> None:
    router = Router({"/models": "auto", "/completions": "openai.completions"})
    assert router.route("/v1/models", "application/json") == Route("auto", Framing.JSON)
    route = router.route("/v1/chat/completions", "application/json")
    assert route == Route("openai.completions", Framing.JSON)


def test_an_unknown_dialect_is_refused() -> None:
    with pytest.raises(ValueError, match=r"openai\.chats"):
        Router({"/x": "openai.chats"})
