"""The numbers of gate 2: prompts, and what servers say of them, each asked once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from extproc.gates import drift
from extproc.gates.drift import Trace
from extproc.gates.endpoint import Endpoint
from extproc.gates.plan import digest
from extproc.gates.settings import Numerical
from extproc.probes import Client, ProbeError, Reply, Support, Way, corrupted_requests

PROMPTS = (
    "The ferry leaves the old pier twice a day, and in winter only when the wind allows. "
    "Passengers should bring",
    "To make a simple bread you need flour, water, salt and yeast. First, mix the flour with",
    "def add(first, second):\n    return first + second\n\n\ndef multiply(first, second):\n",
    "In 1969 two people walked on the surface of the Moon for the first time. They had travelled",
    "Le marché ouvre à huit heures du matin. Les habitants du village y achètent",
    "1, 1, 2, 3, 5, 8, 13, 21, 34,",
)
"""Plain text of several kinds; what is measured are the numbers, not whether it goes on well."""

SEED = 7


@dataclass(frozen=True, slots=True)
class Measured:
    """What one server said of all prompts, by which way."""

    way: Way
    traces: tuple[Trace, ...]

    @property
    def unfit(self) -> bool:
        """Whether nothing can be held against it."""
        return bool(drift.not_finite(self.traces) or drift.uniform(self.traces))


class NoWay(Exception):
    """No way to log probabilities that all servers offer; the text says who offers what."""


class Measurements:
    """Of one run. ``baseline``: None where there is none."""

    def __init__(self, settings: Numerical, candidate: Endpoint, baseline: Endpoint | None) -> None:
        self._settings = settings
        self._candidate = candidate
        self._baseline = baseline
        self._measured: dict[str, Measured | ProbeError] = {}

    def kept(self) -> dict[str, Any] | None:
        """What is worth keeping as a reference, None if nothing was measured or it is unfit."""
        for key, found in self._measured.items():
            if key.startswith(self._candidate.role) and isinstance(found, Measured):
                if found.unfit:
                    return None
                return {**self.shape(found.way), "traces": drift.as_json(found.traces)}
        return None

    def shape(self, way: Way) -> dict[str, Any]:
        return {
            "way": way.value,
            "prompts": digest(PROMPTS),
            "top_k": self._settings.top_k,
            "tokens": self._settings.tokens,
        }

    async def way(self, other: Endpoint | None = None) -> Way:
        """A way that the candidate and whoever it is compared with offer. What is not known to
        work is tried last: a sick server may have failed to show it."""
        endpoints = [self._candidate, *(e for e in (self._baseline, other) if e is not None)]
        answers = await asyncio.gather(
            *(endpoint.capabilities() for endpoint in endpoints), return_exceptions=True
        )
        offers = []
        for endpoint, answer in zip(endpoints, answers, strict=True):
            if not isinstance(answer, BaseException):
                offers.append((endpoint, answer))
            elif endpoint is self._candidate or not isinstance(answer, ProbeError):
                raise answer
            # Of the others that do not answer, their own checks say so.
        for wanted in ((Support.YES,), (Support.YES, Support.UNKNOWN)):
            for way in Way:
                if way is Way.NATIVE and Support.UNKNOWN in wanted:
                    continue
                if all(found.ways.get(way, Support.UNKNOWN) in wanted for _, found in offers):
                    return way
        said = "; ".join(
            f"{endpoint.role} offers {', '.join(w for w in Way if found.offers(w)) or 'none'}"
            for endpoint, found in offers
        )
        raise NoWay(f"no log probabilities to compare: {said}")

    async def counted(self) -> float:
        """Requests with NaN in their logits, as vLLM counts them where it does; else 0."""
        if not (await self._candidate.capabilities()).counters:
            return 0.0
        return await corrupted_requests(await self._candidate.client()) or 0.0

    async def beside_baseline(self, way: Way) -> Measured:
        """The candidate's numbers; the baseline's, another server's, are asked for meanwhile."""

        async def meanwhile() -> None:
            if self._baseline is not None:
                with suppress(ProbeError):  # its own check says so
                    await self.measure(self._baseline, way)

        async with asyncio.TaskGroup() as group:
            group.create_task(meanwhile())
            ours = group.create_task(self._outcome(self._candidate, way))
        found = ours.result()
        if isinstance(found, ProbeError):
            raise found
        return found

    async def _outcome(self, endpoint: Endpoint, way: Way) -> Measured | ProbeError:
        try:
            return await self.measure(endpoint, way)
        except ProbeError as error:
            return error

    async def measure(self, endpoint: Endpoint, way: Way) -> Measured:
        key = f"{endpoint.role} {way}"
        found = self._measured.get(key)
        if found is None:
            try:
                found = await self._ask(endpoint, way)
            except ProbeError as error:
                found = error
            self._measured[key] = found
        if isinstance(found, ProbeError):
            raise found
        return found

    async def _ask(self, endpoint: Endpoint, way: Way) -> Measured:
        client = await endpoint.client()
        traces: list[Trace] = []
        for prompt in PROMPTS:
            reply = await _reply(client, way, prompt, self._settings)
            traces.append(drift.trace(reply.prompt_logprobs, reply.logprobs, self._settings.tokens))
        if not any(trace.given or trace.generated for trace in traces):
            raise ProbeError(f"{client.target.root}: gave no log probabilities ({way})")
        return Measured(way, tuple(traces))


async def _reply(client: Client, way: Way, prompt: str, settings: Numerical) -> Reply:
    common: dict[str, Any] = {"max_tokens": settings.tokens, "temperature": 0, "seed": SEED}
    top = settings.top_k
    if way is Way.ECHO:
        return await client.complete(prompt, echo=True, logprobs=top, **common)
    if way is Way.PROMPT:
        return await client.complete(prompt, prompt_logprobs=top, logprobs=top, **common)
    if way is Way.COMPLETION:
        return await client.complete(prompt, logprobs=top, **common)
    if way is Way.CHAT:
        return await client.chat(prompt, logprobs=True, top_logprobs=top, **common)
    body = {
        "prompt": prompt,
        "n_predict": settings.tokens,
        "n_probs": top,
        "temperature": 0,
        "seed": SEED,
    }
    return await client.ask("/completion", body)
