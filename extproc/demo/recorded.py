"""Replays recorded answers as an inference server would: ``python -m extproc.demo.recorded``.

For a demo without model and engine, and for tests. The recordings are real answers of a healthy
and of a corrupt build (``recorded.json``, written by ``python -m extproc.demo.record``), sent
token by token in OpenAI's format.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import resources
from typing import Any

from aiohttp import web

TOKEN_SECONDS = 0.01
"""Between two tokens: the pace of a small model on one core."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One answer. ``pieces``: the text as it was streamed. ``null_logprobs``: logprobs were asked
    for, and every one was null."""

    prompt: str
    pieces: tuple[str, ...]
    finish: str
    completion_tokens: int
    null_logprobs: bool = False


def load() -> dict[str, list[Recording]]:
    """The recordings in the package: ``healthy`` and ``corrupt``."""
    text = resources.files("extproc.demo").joinpath("recorded.json").read_text("utf-8")
    return {
        build: [Recording(**{**entry, "pieces": tuple(entry["pieces"])}) for entry in entries]
        for build, entries in json.loads(text).items()
    }


def dump(recordings: dict[str, list[Recording]]) -> str:
    """The same as JSON, one recording a line."""
    parts = []
    for build, entries in recordings.items():
        lines = [json.dumps(asdict(entry), ensure_ascii=False) for entry in entries]
        parts.append(f'"{build}": [\n' + ",\n".join(lines) + "\n]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


class Replay:
    """The HTTP handlers of one build."""

    def __init__(self, recordings: list[Recording], model: str) -> None:
        self._by_prompt = {entry.prompt: entry for entry in recordings}
        self._turn = itertools.cycle(recordings)
        self._by_turn = len(self._by_prompt) < len(recordings)  # shapes of one prompt take turns
        self._model = model

    def application(self) -> web.Application:
        """The server's paths, those of an inference server."""
        app = web.Application()
        app.router.add_get("/health", self._health)
        app.router.add_post("/v1/chat/completions", self._chat)
        return app

    async def _health(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})  # as a corrupt engine says, too

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        prompt = asked["messages"][-1]["content"]
        found = None if self._by_turn else self._by_prompt.get(prompt)
        recording = found or next(self._turn)
        if asked.get("stream"):
            return await self._stream(request, recording)
        await asyncio.sleep(TOKEN_SECONDS * recording.completion_tokens)
        return web.json_response(self._whole(recording))

    async def _stream(self, request: web.Request, recording: Recording) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        silent = recording.completion_tokens - len(recording.pieces)  # tokens that gave no text
        await asyncio.sleep(TOKEN_SECONDS * max(silent, 0))
        for event in self._events(recording):
            await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")
            await asyncio.sleep(TOKEN_SECONDS)
        await response.write(b"data: [DONE]\n\n")
        return response

    def _events(self, recording: Recording) -> Iterator[dict[str, Any]]:
        yield self._event({"role": "assistant", "content": None})
        for piece in recording.pieces:
            logprobs = _logprobs([piece]) if recording.null_logprobs else None
            yield self._event({"content": piece}, logprobs=logprobs)
        yield self._event({}, finish=recording.finish)
        yield {**self._frame("chat.completion.chunk"), "choices": [], "usage": _usage(recording)}

    def _event(
        self,
        delta: dict[str, Any],
        finish: str | None = None,
        logprobs: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": finish}
        if logprobs is not None:
            choice["logprobs"] = logprobs
        return {**self._frame("chat.completion.chunk"), "choices": [choice]}

    def _whole(self, recording: Recording) -> dict[str, Any]:
        message = {"role": "assistant", "content": "".join(recording.pieces)}
        choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": recording.finish}
        if recording.null_logprobs:
            choice["logprobs"] = _logprobs(recording.pieces)
        return {
            **self._frame("chat.completion"),
            "choices": [choice],
            "usage": _usage(recording),
        }

    def _frame(self, kind: str) -> dict[str, Any]:
        return {"id": "chatcmpl-replay", "object": kind, "created": 0, "model": self._model}


def _usage(recording: Recording) -> dict[str, int]:
    return {"prompt_tokens": 26, "completion_tokens": recording.completion_tokens}


def _logprobs(pieces: tuple[str, ...] | list[str]) -> dict[str, Any]:
    return {"content": [{"token": piece, "logprob": None, "top_logprobs": []} for piece in pieces]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", choices=("healthy", "corrupt"))
    parser.add_argument("port", type=int)
    parser.add_argument("alias", help="the model's name in every answer")
    chosen = parser.parse_args()
    replay = Replay(load()[chosen.build], chosen.alias)
    web.run_app(
        replay.application(), host="127.0.0.1", port=chosen.port, shutdown_timeout=1, print=None
    )


if __name__ == "__main__":
    main()
