"""Records what the two builds answer: ``python -m extproc.demo.record``.

For ``--upstream recorded``. Starts both builds, asks them the demo's prompts, and writes
``recorded.json``. Fails if a healthy answer is degenerate or a corrupt one is not.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import aiohttp

from extproc.demo import gguf, judge, llamacpp
from extproc.demo.http import answers
from extproc.demo.ports import free_ports
from extproc.demo.processes import Processes, wait_ready
from extproc.demo.prompts import PROMPTS, chat
from extproc.demo.recorded import Recording, dump

SHAPES: tuple[dict[str, Any], ...] = (
    {"top_k": 1},  # token 0: "!!!!"
    {"top_k": 0},  # the largest of no numbers: one other token
    {"top_k": 20, "temperature": 0.8, "seed": 1},  # tokens without text
    {"top_k": 1, "logprobs": True},  # logprobs that are null
)
"""Requests that bring the same fault out in four shapes."""


async def record(folder: Path) -> dict[str, list[Recording]]:
    """Records both builds; ``folder`` takes the corrupt copy and the logs."""
    model, bad = llamacpp.find_model(), folder / "corrupt.gguf"
    gguf.corrupt_copy(model, bad)
    healthy, corrupt = free_ports(2)
    # llama.cpp closes a connection after a stream without saying so: no request may reuse one.
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        with Processes(folder) as processes:
            for path, port, name in ((model, healthy, "healthy"), (bad, corrupt, "corrupt")):
                command = [
                    sys.executable,
                    "-m",
                    "extproc.demo.llamacpp",
                    str(path),
                    str(port),
                    name,
                ]
                process = processes.start(name, command)
                await wait_ready(process, answers(session, f"http://127.0.0.1:{port}/health"))
            return {
                "healthy": [await _ask(session, healthy, prompt) for prompt in PROMPTS],
                "corrupt": [await _ask(session, corrupt, PROMPTS[0], **more) for more in SHAPES],
            }


async def _ask(session: aiohttp.ClientSession, port: int, prompt: str, **more: Any) -> Recording:
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    async with session.post(url, json=chat(prompt, stream=True, **more)) as response:
        body = await response.read()
    answer = judge.read_stream(body)
    pieces, finish = [], ""
    for line in body.decode().splitlines():
        if not line.startswith("data: {"):
            continue
        for choice in json.loads(line[6:])["choices"]:
            if piece := choice["delta"].get("content"):
                pieces.append(piece)
            finish = choice["finish_reason"] or finish
    return Recording(prompt, tuple(pieces), finish, answer.completion_tokens, answer.null_logprobs)


def _check(recordings: dict[str, list[Recording]]) -> None:
    for build, entries in recordings.items():
        for entry in entries:
            read = judge.Answer(
                "".join(entry.pieces),
                completion_tokens=entry.completion_tokens,
                null_logprobs=entry.null_logprobs,
            )
            if judge.is_corrupt(read, set()) is not (build == "corrupt"):
                raise SystemExit(f"not {build}: the answer to {entry.prompt!r}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        recordings = asyncio.run(record(Path(folder)))
    _check(recordings)
    Path(__file__).with_name("recorded.json").write_text(dump(recordings), "utf-8")


if __name__ == "__main__":
    main()
