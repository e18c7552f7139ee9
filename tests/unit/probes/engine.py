"""A scripted engine behind a real HTTP server: it answers every kind of probe, well or badly."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from tests.unit.probes.server import CHAT, COMPLETIONS, Answer, Server

PROSE = "The sky looks blue because air scatters short waves of light more than long ones."
CITY = {"city": "Paris", "country": "France", "inhabitants": 2, "capital": True}
LOGPROBS = (-0.1, -1.5, -0.7, -2.0, -0.3, -0.9)


class Engine:
    """``sick``: every text is ``!!!!``. ``golden``: the answer to the golden prompt."""

    def __init__(self, version: str = "1") -> None:
        self.sick = False
        self.golden = "OK"
        self.version = version
        self.tokens = 0
        """Prompt and answer, of all generating requests."""
        self.generated = 0
        """Generating requests."""

    @property
    def answers(self) -> dict[str, Answer]:
        """For a Server."""
        return {
            "/health": self._plain({}),
            "/v1/models": self._models,
            "/version": self._version,
            CHAT: self._chat,
            COMPLETIONS: self._complete,
            "/v1/embeddings": self._embed,
        }

    def serve(self) -> Server:
        """The server of this engine."""
        return Server(self.answers)

    @staticmethod
    def _plain(content: Any) -> Answer:
        async def answer(request: web.Request) -> web.StreamResponse:
            return web.json_response(content)

        return answer

    async def _models(self, request: web.Request) -> web.StreamResponse:
        entry = {"id": "m", "owned_by": "vllm", "max_model_len": 32768}
        return web.json_response({"data": [entry]})

    async def _version(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"version": self.version})

    def _spent(self, body: dict[str, Any]) -> dict[str, int]:
        prompt, completion = len(json.dumps(body)) // 4, min(20, body.get("max_tokens", 0))
        self.tokens += prompt + completion
        self.generated += 1
        return {"prompt_tokens": prompt, "completion_tokens": completion}

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        usage = self._spent(body)
        question = body["messages"][-1]["content"]
        message: dict[str, Any] = {"role": "assistant", "content": PROSE}
        if "Reply with exactly" in question:
            message["content"] = self.golden
        elif "response_format" in body:
            message["content"] = json.dumps(CITY)
        elif "tools" in body:
            function = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
            message |= {"content": None, "tool_calls": [{"index": 0, "function": function}]}
        if self.sick:
            message = {"role": "assistant", "content": "!" * 48}
        logprobs = self._logprobs() if body.get("logprobs") else None
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": logprobs}
            return web.json_response({"model": "m", "choices": [choice], "usage": usage})
        text = str(message["content"])
        pieces = list(text) if self.sick else [f"{word} " for word in text.split()]
        chunks: list[Any] = [{"index": 0, "delta": {"content": piece}} for piece in pieces]
        chunks.append({"index": 0, "delta": {}, "finish_reason": "stop"})
        events = [{"choices": [chunk]} for chunk in chunks] + [{"choices": [], "usage": usage}]
        sent = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        return web.Response(body=sent.encode(), content_type="text/event-stream")

    def _logprobs(self) -> dict[str, Any]:
        values = [None] * len(LOGPROBS) if self.sick else LOGPROBS
        return {
            "content": [
                {"token": f" t{at}", "logprob": value, "top_logprobs": []}
                for at, value in enumerate(values)
            ]
        }

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        usage = self._spent(body)
        text = "!" * 48 if self.sick else PROSE
        choice = {"index": 0, "text": text, "finish_reason": "length", "logprobs": self._logprobs()}
        usage["completion_tokens"] = len(LOGPROBS)
        return web.json_response({"model": "m", "choices": [choice], "usage": usage})

    async def _embed(self, request: web.Request) -> web.StreamResponse:
        self._spent(await request.json())
        return web.json_response({"error": {"message": "does not support Embeddings"}}, status=404)
