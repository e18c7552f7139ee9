"""Clients: a closed loop of chats through Envoy, half streaming and half not."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from dataclasses import dataclass, field

import aiohttp

from extproc.demo.judge import is_corrupt, read_json, read_stream
from extproc.demo.prompts import PROMPTS, chat

WORKERS = 6
"""Clients at a time. Twice what Envoy's outlier detection counts: see ``release_together``."""

_PATIENCE = aiohttp.ClientTimeout(total=60)


@dataclass(slots=True)
class Tally:
    """What the clients got so far."""

    requests: int = 0
    errors: int = 0
    corrupt_delivered: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    """Whole answers by the build that the body names."""

    corrupt_by_unit: Counter[str] = field(default_factory=Counter)
    first_error: str = ""


class Load:
    """The clients. Each asks, reads the whole answer, judges it, and asks again."""

    def __init__(self, url: str, corrupt_builds: set[str]) -> None:
        self.tally = Tally()
        self._url = url
        self._corrupt_builds = corrupt_builds
        self._prompts = itertools.cycle(PROMPTS)
        self._gate = asyncio.Event()
        self._gate.set()
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._ending = False

    async def run(self) -> None:
        """Runs until ``end``; answers under way are read to their end."""
        connector = aiohttp.TCPConnector(limit=WORKERS)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=_PATIENCE) as session,
            asyncio.TaskGroup() as group,
        ):
            for worker in range(WORKERS):
                group.create_task(self._work(session, stream=worker % 2 == 0))

    def end(self) -> None:
        """No further request is begun."""
        self._ending = True
        self._gate.set()

    def hold(self) -> None:
        """Keeps clients from their next request; answers under way go on."""
        self._gate.clear()

    async def idle(self) -> None:
        """Returns when no answer is under way."""
        await self._idle.wait()

    def release_together(self) -> None:
        """Lets all clients ask at once.

        After a roll-out this makes the outcome certain: every client's request is at the new build
        before the first of its answers is judged. So Envoy sees WORKERS marked answers in a row,
        twice what its outlier detection needs, however soon the sidecar's own verdict on the unit
        closes it to further requests.
        """
        self._gate.set()

    async def _work(self, session: aiohttp.ClientSession, stream: bool) -> None:
        while True:
            await self._gate.wait()
            if self._ending:
                return
            self._running += 1
            self._idle.clear()
            try:
                await self._ask(session, next(self._prompts), stream)
            finally:
                self._running -= 1
                if not self._running:
                    self._idle.set()

    async def _ask(self, session: aiohttp.ClientSession, prompt: str, stream: bool) -> None:
        tally = self.tally
        tally.requests += 1
        try:
            async with session.post(self._url, json=chat(prompt, stream)) as response:
                body = await response.read()
            if response.status != 200:
                raise ValueError(f"status {response.status}")
            if "x-semantic-verdict" in response.headers:
                raise ValueError("the marker reached the client")
            answer = read_stream(body) if stream else read_json(body)
            if not answer.finished:
                raise ValueError("an answer without its end")
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            tally.errors += 1
            tally.first_error = tally.first_error or f"{type(error).__name__}: {error}"
            await asyncio.sleep(0.1)  # a gateway that refuses at once is not to be hammered
            return
        tally.answers.update(answer.models)
        if is_corrupt(answer, self._corrupt_builds):
            tally.corrupt_delivered += 1
            tally.corrupt_by_unit[response.headers.get("x-semantic-unit", "?")] += 1
