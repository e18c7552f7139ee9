"""A real HTTP server that answers what a test tells it to."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Self

from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """On a free port of the loopback. ``answers``: path -> what it answers with."""

    def __init__(self, answers: dict[str, Answer], tls: ssl.SSLContext | None = None) -> None:
        self._answers = answers
        self._tls = tls
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        """Path, headers and JSON body of each request, in the order of arrival."""

    def application(self) -> web.Application:
        """To be served by somebody else."""
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{path:.*}", self._answer)
        return app

    async def __aenter__(self) -> Self:
        self._runner = web.AppRunner(self.application(), access_log=None, shutdown_timeout=0.01)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        scheme = "https" if self._tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json() if request.can_read_body else None
        self.requests.append((request.path, dict(request.headers), body))
        answer = self._answers.get(request.path)
        return await answer(request) if answer is not None else web.Response(status=404)


def says(content: Any, status: int = 200) -> Answer:
    """A JSON answer."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response(content, status=status)

    return answer


def sends(body: bytes, content_type: str = "application/json", status: int = 200) -> Answer:
    """An answer to the byte."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, content_type=content_type, status=status)

    return answer


def chat(content: str, **more: Any) -> Answer:
    """A whole chat completion."""
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 5, "completion_tokens": max(1, len(content) // 2)}
    return says({"model": "m", "choices": [choice | more], "usage": usage})


USAGE = {"prompt_tokens": 5, "completion_tokens": 60, "total_tokens": 65}
CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
MODELS = says({"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 4096}]})
