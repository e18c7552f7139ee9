"""One probe of one server, within the budget: requests sent, judged, corroborated, settled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from extproc.detect import Finding, Weight
from extproc.probes.budget import Budget, Cost
from extproc.probes.client import Client
from extproc.probes.discovery import (
    REQUESTS,
    TOKENS,
    Capabilities,
    context_in,
    corrupted_requests,
    count_tokens,
    discover,
)
from extproc.probes.errors import BadStatus, ProbeError
from extproc.probes.filler import Tokens, filler
from extproc.probes.kinds import Answer, Judgement, Outcome, Probe, Request, Room, Skip
from extproc.probes.reply import Reply
from extproc.probes.results import Cell, Result

T = TypeVar("T")

GENERATING = ("/v1/chat/completions", "/v1/completions")


class NoRoom(Exception):
    """The budget has no room for a request. ``wait``: seconds until it has; None: it never will."""

    def __init__(self, wait: float | None) -> None:
        if wait is None:
            said = "one request may cost more than the whole budget: raise probes.budget"
        else:
            said = f"the budget is spent; there is room in {wait:.0f} s"
        super().__init__(said)
        self.wait = wait


@dataclass(slots=True)
class Spent:
    """What one probe has cost. Tokens are -1 where no answer told any."""

    requests: int = 0
    prompt: int = -1
    completion: int = -1
    seconds: float = 0.0

    def add(self, answer: Answer, seconds: float) -> None:
        """Takes one request into account."""
        self.requests += 1
        self.seconds += seconds
        reply = answer if not isinstance(answer, ProbeError) else getattr(answer, "reply", None)
        if reply is not None:
            if reply.usage.prompt >= 0:
                self.prompt = max(self.prompt, 0) + reply.usage.prompt
            if reply.usage.completion >= 0:
                self.completion = max(self.completion, 0) + reply.usage.completion


class Probed(NamedTuple):
    """A judgement, what it cost, and how far the engine's own count of corrupted requests rose
    meanwhile (-1: it has none)."""

    judgement: Judgement
    spent: Spent
    corroborated: float = -1.0

    def result(self, cell: Cell, release: str, identity: str, at: float) -> Result:
        """The same, as it is kept."""
        return Result(
            cell=cell,
            release=release,
            identity=identity,
            outcome=self.judgement.outcome,
            at=at,
            reason=self.judgement.reason,
            findings=self.judgement.findings,
            proof=self.judgement.proof,
            seconds=round(self.spent.seconds, 3),
            requests=self.spent.requests,
            prompt_tokens=self.spent.prompt,
            completion_tokens=self.spent.completion,
            corroborated=self.corroborated,
        )


class Runner:
    """Probes one server through ``client``, whose calls end within its timeout.

    ``clock``: Unix time. ``tokens`` is kept from one runner to the next: what has been measured of
    a server.
    """

    def __init__(
        self,
        client: Client,
        budget: Budget,
        tokens: Tokens,
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._budget = budget
        self._tokens = tokens
        self._clock = clock

    async def discover(self) -> Capabilities:
        """What the server offers, and how its tokenizer counts. Raises ProbeError or NoRoom."""
        timeout = self._client.settings.timeout
        cost = Cost(REQUESTS, TOKENS, timeout)

        async def asked() -> Capabilities:
            async with asyncio.timeout(timeout):
                found = await discover(self._client)
                if found.tokenize:
                    text = filler(2048)
                    count = await count_tokens(self._client, text)
                    self._tokens.measured(len(text.encode()), count or 0)
                return found

        try:
            return await self._spending(
                cost, asked, lambda found, seconds: cost._replace(seconds=seconds)
            )
        except TimeoutError:
            raise ProbeError("the server's abilities could not be asked for in time") from None

    async def probe(self, probe: Probe, room: Room) -> Probed:
        """Makes one probe. Raises NoRoom."""
        spent = Spent()
        try:
            requests = probe.requests(room)
        except Skip as skip:
            return Probed(Judgement(Outcome.SKIPPED, str(skip)), spent)
        counters = room.capabilities.counters
        before = await corrupted_requests(self._client) if counters else None
        answers: list[Answer] = []
        for request in requests:
            answers.append(await self._answer(request, spent))
        judgement = _through_a_gateway(answers) or probe.judge(room, answers)
        if judgement.outcome is Outcome.ERROR:
            judgement = self._too_long(room, answers) or judgement
        after = await corrupted_requests(self._client) if before is not None else None
        if before is None or after is None:
            return Probed(judgement, spent)
        risen = max(0.0, after - before)
        return Probed(_corroborated(judgement, risen), spent, risen)

    async def _answer(self, request: Request, spent: Spent) -> Answer:
        client = self._client
        cost = Cost(
            1, self._tokens.most(request.size) + request.max_tokens, client.settings.timeout
        )

        async def asked() -> Answer:
            try:
                if request.path in GENERATING:
                    return await client.generate(
                        request.path, request.body, stream=request.stream, plain=request.plain
                    )
                return await client.ask(request.path, request.body, plain=request.plain)
            except ProbeError as error:
                return error

        def settled(answer: Answer, seconds: float) -> Cost:
            spent.add(answer, seconds)
            if isinstance(answer, ProbeError):
                # It may have computed all the same; only a connection that never was cost nothing.
                return cost._replace(seconds=seconds)
            usage = answer.usage
            if usage.prompt > 0:
                self._tokens.measured(request.size, usage.prompt)
            total = usage.prompt + max(0, usage.completion)
            tokens = total if usage.prompt >= 0 else cost.tokens
            return Cost(1, tokens, seconds)

        return await self._spending(cost, asked, settled)

    async def _spending(
        self,
        cost: Cost,
        call: Callable[[], Awaitable[T]],
        settled: Callable[[T, float], Cost],
    ) -> T:
        """``call``, if there is room for ``cost``; then what it did cost is settled."""
        budget, now = self._budget, self._clock()
        reservation = budget.reserve(cost, now)
        if reservation is None:
            free = budget.free_at(cost, now)
            raise NoRoom(None if free is None else max(0.0, free - now))
        started = asyncio.get_running_loop().time()
        spent = cost
        try:
            found = await call()
            spent = settled(found, asyncio.get_running_loop().time() - started)
            return found
        finally:  # also when it is cancelled: then it counts in full
            budget.settle(reservation, spent, self._clock())

    def _too_long(self, room: Room, answers: list[Answer]) -> Judgement | None:
        for answer in answers:
            if isinstance(answer, BadStatus) and (most := context_in(answer.message)):
                said = f"the model takes {most} tokens, fewer than class {room.band.name} needs"
                return Judgement(Outcome.SKIPPED, said)
        return None


def _through_a_gateway(answers: list[Answer]) -> Judgement | None:
    """A sidecar on the way took the probe for traffic, and the gateway may have asked another unit
    than the one that is probed."""
    for answer in answers:
        reply = answer if isinstance(answer, Reply) else getattr(answer, "reply", None)
        if isinstance(reply, Reply) and reply.via:
            said = (
                f"answered through the gateway, by unit {reply.via}: probes go to the engine itself"
            )
            return Judgement(Outcome.ERROR, said)
    return None


def _corroborated(judgement: Judgement, risen: float) -> Judgement:
    """What the engine counts itself is proof: there was NaN in the logits of a request."""
    if not risen or judgement.outcome in (Outcome.SKIPPED, Outcome.ERROR):
        return judgement
    said = f"the engine counted {risen:g} corrupted requests meanwhile"
    finding = Finding("probe_counter", "corrupted_requests", risen, 0.0, Weight.PROOF, said)
    reason = f"{judgement.reason}; {said}" if judgement.reason else said
    return Judgement(Outcome.FAILED, reason, (*judgement.findings, finding), proof=True)
