"""A small server that speaks OpenAI's protocol, well or badly, in a thread of its own."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from typer.testing import CliRunner

from extproc.cli import app as command_line
from tests.unit.cli.sidecar import served

LOGPROBS = (-0.2, -0.01, -1.4, -0.7)
WORDS = ("The", " boat", " leaves", " early")
CITY = {"city": "Paris", "country": "France", "inhabitants": 2100000, "capital": True}


class Fake:
    """``answer``: of chats without a format. ``logprobs``: "chat", "echo" or "" (ignored).
    ``corrupted``: what vLLM counts of requests with NaN, one more each time it is asked.
    ``refuses``: fields of a request that are answered with 400, as strict servers do.
    ``shift``: added to every log probability. ``nan``, ``constant``: written in their place."""

    def __init__(self, **changes: Any) -> None:
        self.models: list[str] = ["m"]
        self.answer = "OK"
        self.logprobs = "chat"
        self.shift = 0.0
        self.nan = False
        self.constant: float | None = None
        self.html = False
        self.refuses: tuple[str, ...] = ()
        self.corrupted: int | None = None
        self.status = 200
        self.delay = 0.0
        self.health = 200
        self.ready_after = 0
        self.max_model_len: int | None = 8192
        self.key = ""
        self.seen: Counter[str] = Counter()
        self.chats: list[dict[str, Any]] = []
        for name, value in changes.items():
            assert hasattr(self, name), name
            setattr(self, name, value)

    def app(self) -> web.Application:
        app = web.Application()
        app.add_routes(
            [
                web.get("/health", self._health),
                web.get("/v1/models", self._models),
                web.get("/metrics", self._metrics),
                web.post("/v1/chat/completions", self._chat),
                web.post("/v1/completions", self._complete),
            ]
        )
        return app

    @contextmanager
    def running(self) -> Iterator[str]:
        with served(self.app) as url:
            yield url

    async def _health(self, request: web.Request) -> web.Response:
        self.seen["health"] += 1
        if self.seen["health"] <= self.ready_after:
            return web.Response(status=503)
        return web.Response(status=self.health)

    async def _metrics(self, request: web.Request) -> web.Response:
        if self.corrupted is None:
            return web.Response(status=404)
        self.corrupted += self.seen["chat"] > 3  # those that discovery sends are not the gate's
        return web.Response(text=f'vllm:corrupted_requests_total{{model="m"}} {self.corrupted}\n')

    async def _models(self, request: web.Request) -> web.StreamResponse:
        if (refused := await self._common(request, "models")) is not None:
            return refused
        entries = []
        for name in self.models:
            entry: dict[str, Any] = {"id": name, "object": "model"}
            if self.max_model_len is not None:
                entry["max_model_len"] = self.max_model_len
            entries.append(entry)
        return web.json_response({"object": "list", "data": entries})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        self.chats.append(asked)
        if wrong := [name for name in self.refuses if name in asked]:
            error = {"error": {"message": f"Unrecognized request argument supplied: {wrong[0]}"}}
            return web.json_response(error, status=400)
        if (refused := await self._common(request, "chat")) is not None:
            return refused
        message: dict[str, Any] = {"role": "assistant", "content": self.answer}
        prompt = sum(len(m["content"]) for m in asked["messages"]) // 4
        if "response_format" in asked:
            message["content"] = json.dumps(CITY)
        if "tools" in asked:
            call = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
            message = {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "1", "type": "function", "function": call}],
            }
        choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": "stop"}
        if asked.get("logprobs") and self.logprobs == "chat":
            choice["logprobs"] = {"content": [self._token(at) for at in range(len(WORDS))]}
        return self._reply({"choices": [choice], "usage": _usage(prompt, len(WORDS))})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        if (refused := await self._common(request, "completions")) is not None:
            return refused
        if self.logprobs != "echo":
            return web.json_response({"error": {"message": "not supported"}}, status=404)
        words = [*asked["prompt"].split(" "), "!"]
        values = [None, *(-0.1 * (1 + len(word) % 5) + self.shift for word in words[1:])]
        tops = zip(words[1:], values[1:], strict=True)
        logprobs = {
            "tokens": words,
            "token_logprobs": values,
            "top_logprobs": [None, *({word: value} for word, value in tops)],
        }
        choice = {"index": 0, "text": " ".join(words), "finish_reason": "length"}
        return self._reply(
            {"choices": [{**choice, "logprobs": logprobs}], "usage": _usage(len(words) - 1, 1)}
        )

    def _token(self, at: int) -> dict[str, Any]:
        value = float("nan") if self.nan else LOGPROBS[at] + self.shift
        if self.constant is not None:
            value = self.constant
        top = [
            {"token": WORDS[at], "logprob": value},
            {"token": " other", "logprob": value - 2},
        ]
        return {"token": WORDS[at], "logprob": value, "top_logprobs": top}

    async def _common(self, request: web.Request, what: str) -> web.Response | None:
        self.seen[what] += 1
        await asyncio.sleep(self.delay)
        if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            error = {"error": {"message": f"Incorrect API key; expected {self.key}"}}
            return web.json_response(error, status=401)
        if self.html:
            return web.Response(text="<html>Welcome to nginx!</html>", content_type="text/html")
        if self.status != 200 and what != "models":
            return web.json_response({"error": {"message": "it broke"}}, status=self.status)
        return None

    def _reply(self, content: dict[str, Any]) -> web.Response:
        content |= {"id": "x", "object": "chat.completion", "model": "m", "created": 1}
        return web.Response(text=json.dumps(content), content_type="application/json")


def _usage(prompt: int, completion: int) -> dict[str, int]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


class Gates:
    """The gate command with two files in a folder. Changes are by dotted name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings: dict[str, Any] = {
            "gate_config": {
                "gate_1_model_load": {"timeout_sec": 20},
                "gate_4_long_context": {"context_lengths": [1024, 16384], "json_samples": 2},
            }
        }
        self.config: dict[str, str] = {"matrix": 'runtime_version = "r1"\n'}

    def gate(self, name: str, **changes: Any) -> None:
        """Settings of one gate."""
        self.settings["gate_config"].setdefault(name, {}).update(changes)

    def serve(self, url: str, section: str = "service.under_test", **more: str) -> None:
        """A server of config.toml."""
        lines = [f'base_url = "{url}"', 'model = "m"']
        lines += [f'{name} = "{value}"' for name, value in more.items()]
        self.config[section] = "\n".join(lines) + "\n"

    def files(self) -> list[str]:
        """Writes both files; the options that name them, and the folder for state."""
        settings, config = self.folder / "settings.json", self.folder / "config.toml"
        settings.write_text(json.dumps(self.settings))
        config.write_text("".join(f"[{name}]\n{text}\n" for name, text in self.config.items()))
        files = ["--settings", str(settings), "--config", str(config)]
        return [*files, "--state", str(self.folder / "state")]

    def run(self, *arguments: str, command: str = "run") -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        state = ["--state", str(self.folder / "state")]
        given = self.files() if command == "run" else state
        done = CliRunner().invoke(command_line, ["gate", command, *given, *arguments])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.stdout, done.stderr

    def report(self, *arguments: str) -> dict[str, Any]:
        """The JSON report."""
        code, out, err = self.run("--output", "json", *arguments)
        assert out, err
        content: dict[str, Any] = json.loads(out)
        assert content["exit_code"] == code
        return content

    def apart(self, *arguments: str) -> dict[str, Any]:
        """The JSON report of a run in a process of its own: signals belong to the main thread."""
        command = [sys.executable, "-m", "extproc", "gate", "run", *self.files(), *arguments]
        done = subprocess.run(
            [*command, "--output", "json"],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout, done.stderr
        content: dict[str, Any] = json.loads(done.stdout)
        assert content["exit_code"] == done.returncode
        return content


def checks(report: dict[str, Any]) -> dict[str, Any]:
    """Every check by its name."""
    return {check["name"]: check for gate in report["gates"] for check in gate["checks"]}


def statuses(report: dict[str, Any]) -> dict[str, str]:
    """What every gate came to."""
    return {gate["name"]: gate["status"] for gate in report["gates"]}
