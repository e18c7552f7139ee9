"""What a probe is: requests that are known beforehand, and a judgement of the answers. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, TypeAlias

from extproc.detect import Finding, Kind, Weight
from extproc.probes.discovery import Capabilities, context_in, unsupported
from extproc.probes.errors import BadStatus, NotJson, ProbeError
from extproc.probes.filler import Tokens, filler
from extproc.probes.reply import Reply

CHAT = "/v1/chat/completions"


class Outcome(StrEnum):
    """What became of a probe."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    """The server does not offer it, or the model cannot take it."""

    ERROR = "error"
    """No judgement: no connection, a timeout, an error that says nothing of the engine's output."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """An outcome, with what was found and why in our own words: never those of an answer.

    ``proof``: what failed cannot happen to a healthy engine, whatever the model is able to.
    Without it a failure counts against the engine only where the model is known to do better.
    """

    outcome: Outcome
    reason: str = ""
    findings: tuple[Finding, ...] = ()
    proof: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """One request. ``size``: of its body in bytes. ``max_tokens``: of the answer.

    ``plain``: the same without what only fills it up: the answer is judged as one to that, for
    numbers and lists in the filler would excuse repetition that nobody asked for.
    """

    path: str
    body: Mapping[str, Any] = field(repr=False)
    size: int
    max_tokens: int = 0
    stream: bool = False
    plain: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Band:
    """One context class: request bodies above ``low`` bytes, up to ``high`` (None: any)."""

    name: str
    low: int = 0
    high: int | None = None


@dataclass(frozen=True, slots=True)
class Room:
    """What a kind may go by: the server, the class, and how text comes to tokens.

    ``long_tokens``: what a long context is filled to, where class and model allow it.
    """

    model: str
    capabilities: Capabilities = Capabilities()
    band: Band = Band("short")
    tokens: Tokens = field(default_factory=Tokens)
    long_tokens: int = 8192
    seed: int = 0

    def padding(self, size: int) -> str:
        """Text that brings a body of ``size`` bytes into the class; "" where it is there."""
        missing = self.band.low + 64 - size if self.band.low else 0
        return filler(missing, self.seed) if missing > 0 else ""

    def fits(self, size: int, max_tokens: int) -> None:
        """Raises Skip when a prompt of ``size`` bytes is more than the model takes."""
        context = self.capabilities.max_context
        needed = int(size * (self.tokens.rate or 0.22)) + max_tokens
        if context is not None and needed > context:
            raise Skip(
                f"class {self.band.name} begins at {self.band.low} bytes, about {needed} tokens; "
                f"the model takes {context}"
            )


class Skip(Exception):
    """The probe cannot be made here. The text says why."""


Answer: TypeAlias = Reply | ProbeError


class Probe:
    """One kind of probe."""

    name: ClassVar[str]
    title: ClassVar[str]
    """For people, a few words."""

    def requests(self, room: Room) -> list[Request]:
        """What is to be asked, in this order. Raises Skip."""
        raise NotImplementedError

    def judge(self, room: Room, answers: Sequence[Answer]) -> Judgement:
        """What the answers, one for each request, come to."""
        first = first_trouble(answers)
        if first is not None:
            return first
        return self.check(room, [answer for answer in answers if isinstance(answer, Reply)])

    def check(self, room: Room, replies: list[Reply]) -> Judgement:
        """The kind's own check of answers that the detectors call clean."""
        raise NotImplementedError


def first_trouble(answers: Sequence[Answer]) -> Judgement | None:
    """What speaks against the answers before anybody looks at what they say, the gravest first."""
    verdicts = [judged(answer) for answer in answers]
    worst: Judgement | None = None
    order = [Outcome.FAILED, Outcome.ERROR, Outcome.SKIPPED]
    for found in verdicts:
        if found is not None and (
            worst is None
            or (found.proof and not worst.proof)
            or (
                found.proof == worst.proof
                and order.index(found.outcome) < order.index(worst.outcome)
            )
        ):
            worst = found
    return worst


def judged(answer: Answer) -> Judgement | None:
    """What one answer comes to by our detectors and by HTTP; None while nothing is wrong."""
    reply = answer if isinstance(answer, Reply) else getattr(answer, "reply", None)
    if isinstance(reply, Reply) and reply.verdict.kind is Kind.CORRUPT:
        return Judgement(Outcome.FAILED, _named(reply.findings), reply.findings, proof=True)
    if isinstance(answer, BadStatus):
        # An engine that breaks on a question that others answer; 502 to 504 say that it is away.
        broke = isinstance(reply, Reply) and reply.verdict.kind is Kind.SUSPECT
        if broke and answer.status == 500 and not context_in(answer.message):
            return Judgement(Outcome.FAILED, _named(answer.findings), answer.findings)
        if unsupported(answer):
            return Judgement(Outcome.SKIPPED, f"not offered: status {answer.status}")
        return Judgement(Outcome.ERROR, f"status {answer.status}")
    if isinstance(answer, NotJson):
        return Judgement(Outcome.ERROR, "the answer is no JSON")
    if isinstance(answer, ProbeError):
        return Judgement(Outcome.ERROR, answer.kind)
    if answer.verdict.kind is Kind.SUSPECT:
        return Judgement(Outcome.FAILED, _named(answer.findings), answer.findings)
    if answer.verdict.kind is Kind.UNCHECKED:
        return Judgement(Outcome.ERROR, "nothing in the answer could be judged", answer.findings)
    return None


def passed(reason: str = "") -> Judgement:
    """A probe that passed."""
    return Judgement(Outcome.PASSED, reason)


def failed(
    kind: str,
    reason: str,
    said: str,
    value: float = 1.0,
    threshold: float = 0.0,
    *,
    proof: bool = False,
) -> Judgement:
    """A probe that failed its own check. ``reason``: one word for the finding's name."""
    finding = Finding(f"probe_{kind}", reason, value, threshold, Weight.PROOF, said)
    return Judgement(Outcome.FAILED, said, (finding,), proof)


def chat_request(
    room: Room,
    question: str,
    max_tokens: int,
    *,
    before: str = "",
    stream: bool = False,
    **fields: Any,
) -> Request:
    """A chat that stands in the room's class, answered without chance. Raises Skip.

    ``before``: filler that is wanted in any case; without it, as much as the class needs.
    """

    def body(padding: str) -> dict[str, Any]:
        text = f"{padding}\n\n{question}" if padding else question
        return {
            "model": room.model,
            "messages": [{"role": "user", "content": text}],
            "max_tokens": max_tokens,
            "temperature": 0,
            "seed": room.seed,
            **fields,
        }

    plain = body("")
    padding = before or room.padding(len(json.dumps(plain)))
    made = body(padding)
    size = len(json.dumps(made))
    room.fits(size, max_tokens)
    return Request(CHAT, made, size, max_tokens, stream, plain)


def _named(findings: Sequence[Finding]) -> str:
    names = [finding.name for finding in findings if finding.weight is not Weight.NOTE]
    return ", ".join(dict.fromkeys(names)) or "judged so"
