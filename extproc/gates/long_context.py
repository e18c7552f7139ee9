"""Gate 4: long prompts, structured output, tool calls, and the same prompt twice.

What a server or its model does not offer is left out, and the reason says so. A long prompt is
ordinary text, filled to a length by the server's own count of tokens; whether its answer is any
good is not asked, whether it is still language is.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from extproc.gates.conditions import Condition
from extproc.gates.endpoint import Endpoint, declines, unanswered
from extproc.gates.judging import corrupt, seen
from extproc.gates.outcome import Check, Measured, Status, failed, passed, skipped
from extproc.gates.plan import Gate, Planned
from extproc.gates.settings import LongContext
from extproc.probes import (
    BadStatus,
    Call,
    Capabilities,
    Client,
    ProbeError,
    Reply,
    Support,
    Way,
    count_tokens,
)
from extproc.probes.discovery import TOOL, context_in
from extproc.probes.filler import filler
from extproc.probes.kinds.structured import CITY, kept

QUESTION = "\n\nIn one short sentence: what are these notes about?"

ANSWER = 48
"""Tokens of an answer to a long prompt."""

TEMPLATE = 64
"""Tokens that are left free for what the chat template adds."""

CACHED = 256
"""Tokens of the prompt that is asked twice, where the model takes as many."""

CITIES = (
    *("Paris", "Rome", "Lima", "Cairo", "Oslo", "Tokyo", "Nairobi", "Toronto", "Vienna", "Hanoi"),
)

Run = Callable[[tuple[Check, ...]], Awaitable[Check]]


def long_context_gate(settings: LongContext, candidate: Endpoint) -> Gate:
    """The gate for one server."""
    run = _Long(settings, candidate)
    checks = [
        Planned(f"context_{length}", run.context(length)) for length in settings.context_lengths
    ]
    for number in range(1, settings.json_samples + 1):
        checks.append(Planned(f"json:{number}", run.structured(number)))

    async def json_rate(before: tuple[Check, ...]) -> Check:
        samples = [check for check in before if check.name.startswith("json:")]
        return parse_rate(samples, settings.json_parse_rate_threshold)

    checks.append(Planned("json_parse_rate", json_rate, derived=True))
    if settings.tool_call_schema_check:
        checks.append(Planned("tool_call_schema", run.tools))
    if settings.prefix_cache_check:
        checks.append(Planned("prefix_cache", run.prefix_cache))
    return Gate(4, "gate_4_long_context", tuple(checks), {**candidate.identity, "answer": ANSWER})


def parse_rate(samples: Sequence[Check], threshold: float) -> Check:
    """Whether enough structured answers keep their schema."""
    name = "json_parse_rate"
    asked = [sample for sample in samples if sample.status is not Status.SKIPPED]
    if not asked:
        return skipped(name, samples[0].reason if samples else "no samples")
    kept_ = sum(sample.status is Status.PASSED for sample in asked)
    rate = kept_ / len(asked)
    said = f"{kept_} of {len(asked)} structured answers parse and keep their schema"
    numbers: Measured = {"asked": len(asked), "parsed": kept_, "rate": rate}
    if rate < threshold:
        missed = [sample for sample in asked if sample.status is not Status.PASSED]
        return failed(
            name,
            f"{said}; {missed[0].name.removeprefix('json:')}: {missed[0].reason}",
            Condition.JSON_RATE,
            threshold=threshold,
            answered=all(sample.answered for sample in missed),
            measured=numbers,
        )
    return passed(name, said, threshold, measured=numbers)


class _Long:
    def __init__(self, settings: LongContext, candidate: Endpoint) -> None:
        self._settings = settings
        self._candidate = candidate
        self._rate = 0.0

    async def _client(self) -> Client:
        return await self._candidate.client(self._settings.timeout_sec)

    def context(self, length: int) -> Run:
        """A prompt that fills ``length`` tokens, its answer included."""
        name = f"context_{length}"

        async def check(_: tuple[Check, ...]) -> Check:
            try:
                offers = await self._candidate.capabilities()
                if offers.max_context is not None and offers.max_context < length:
                    return skipped(
                        name,
                        f"the model takes {offers.max_context} tokens ({offers.context_source})",
                        measured={"max_context": offers.max_context},
                    )
                client = await self._client()
                aimed = max(64, length - ANSWER - TEMPLATE)
                text = await self._filled(client, aimed)
                reply = await client.chat(text, **self._numbers(offers))
            except BadStatus as error:
                if (takes := context_in(error.message)) is not None and takes <= length:
                    return skipped(name, f"the server says that it takes {takes} tokens")
                return self._refused(name, error, Condition.LONG_CONTEXT)
            except ProbeError as error:
                return self._refused(name, error, Condition.LONG_CONTEXT)
            return _answer_to_long(name, aimed, reply)

        return check

    def structured(self, number: int) -> Run:
        """One structured answer."""
        name = f"json:{number}"
        city = CITIES[(number - 1) % len(CITIES)]
        ask = (
            f"Describe the city of {city} as one JSON object with the fields city, country, "
            "inhabitants and capital."
        )
        shape = {"name": "city", "strict": True, "schema": CITY}

        async def check(_: tuple[Check, ...]) -> Check:
            try:
                client = await self._client()
                reply = await client.chat(
                    ask,
                    response_format={"type": "json_schema", "json_schema": shape},
                    max_tokens=192,
                    temperature=0,
                )
            except BadStatus as error:
                if declines(error):
                    return skipped(name, "the server offers no output by a JSON schema")
                found = self._refused(name, error)
                return Check(name, Status.MISSED, found.reason, answered=found.answered)
            except ProbeError as error:
                found = self._refused(name, error)
                return Check(name, Status.MISSED, found.reason, answered=found.answered)
            if wrong := kept(reply.text.strip(), CITY):
                if reply.corrupt:
                    wrong += f"; {seen(reply)}"
                if reply.finish == "length":
                    wrong += "; cut off by max_tokens"
                return Check(name, Status.MISSED, f"the answer {wrong}")
            return passed(name, "keeps its schema")

        return check

    async def tools(self, _: tuple[Check, ...]) -> Check:
        name = "tool_call_schema"
        try:
            offers = await self._candidate.capabilities()
            if offers.tools is Support.NO:
                return skipped(name, "the server takes no tools with this model's chat template")
            client = await self._client()
            fields: dict[str, Any] = {"tools": [TOOL], "tool_choice": "required", "temperature": 0}
            replies = [await client.chat("What is the weather in Paris?", max_tokens=128, **fields)]
            if offers.parallel_tools is not Support.NO:
                replies.append(
                    await client.chat(
                        "What is the weather in Paris, and what is it in Rome? Ask for both.",
                        max_tokens=256,
                        parallel_tool_calls=True,
                        **fields,
                    )
                )
        except BadStatus as error:
            if declines(error):
                return skipped(name, f"the server takes no tools: {error.message or error.status}")
            return self._refused(name, error, Condition.TOOL_CALL)
        except ProbeError as error:
            return self._refused(name, error, Condition.TOOL_CALL)
        calls = [call for reply in replies for call in reply.calls]
        most = max(len(reply.calls) for reply in replies)
        for number, reply in enumerate(replies, 1):
            if reply.corrupt:
                return failed(name, f"question {number}: {seen(reply)}", Condition.TOOL_CALL)
            if not reply.calls:
                return failed(
                    name,
                    f"question {number}: no tool call, though tool_choice requires one",
                    Condition.TOOL_CALL,
                )
        for call in calls:
            if wrong := broken_call(call):
                return failed(
                    name, f"a call {wrong}", Condition.TOOL_CALL, measured={"calls": len(calls)}
                )
        return passed(
            name,
            f"{len(calls)} calls keep their schema, {most} at once",
            measured={"calls": len(calls), "at_once": most},
        )

    async def prefix_cache(self, _: tuple[Check, ...]) -> Check:
        name = "prefix_cache"
        try:
            offers = await self._candidate.capabilities()
            most = offers.max_context
            length = CACHED if most is None else min(CACHED, most - ANSWER - TEMPLATE)
            if length < 64:
                return skipped(name, f"the model takes only {most} tokens")
            client = await self._client()
            # A beginning that was never sent before: the first time it cannot be in the cache.
            text = f"Notes {secrets.token_hex(8)}.\n" + await self._filled(client, length - 32)
            replies = [await client.chat(text, **self._numbers(offers)) for _ in range(2)]
        except ProbeError as error:
            return self._refused(name, error, Condition.LONG_CONTEXT)
        cached = [reply.usage.cached for reply in replies]
        numbers: Measured = {
            "cached_first": cached[0],
            "cached_second": cached[1],
            "same_answer": replies[0].text == replies[1].text,
        }
        for turn, reply in zip(("the first time", "from the cache"), replies, strict=True):
            if wrong := corrupt(reply):
                return failed(
                    name, f"corrupt {turn}: {wrong}", Condition.LONG_CONTEXT, measured=numbers
                )
        if replies[0].text.strip() and not _said(replies[1]):
            return failed(
                name, "empty from the cache alone", Condition.LONG_CONTEXT, measured=numbers
            )
        if cached[1] > max(0, cached[0]):
            said = f"well both times; {cached[1]} tokens came from the cache the second time"
        elif cached[1] >= 0:
            said = "well both times, but the cache was not used the second time either"
        else:
            said = "well both times; the server does not count cached tokens"
        return passed(name, said, measured=numbers)

    async def _filled(self, client: Client, tokens: int) -> str:
        """Text of about so many tokens, and never more by the server's own count."""
        if not self._rate:
            sample = filler(4000)
            counted = await count_tokens(client, sample)
            if counted is None:
                reply = await client.chat(sample[:2000], max_tokens=1, temperature=0)
                counted = reply.usage.prompt * 2 if reply.usage.prompt > 0 else len(sample) // 3
            self._rate = counted / len(sample)
        size = int(tokens / self._rate) - len(QUESTION)
        while True:
            # Later numbers are longer than those of the sample: a text may come out larger.
            text = filler(max(64, size), seed=tokens) + QUESTION
            counted = await count_tokens(client, text)
            if counted is None or counted <= tokens or size <= 64:
                return text
            size = int(size * tokens / counted) - 120

    @staticmethod
    def _numbers(offers: Capabilities) -> dict[str, Any]:
        """Fields of a question; with log probabilities where there are any: NaN shows in them."""
        fields: dict[str, Any] = {"max_tokens": ANSWER, "temperature": 0}
        return fields | ({"logprobs": True} if offers.offers(Way.CHAT) else {})

    def _refused(self, name: str, error: ProbeError, *conditions: Condition) -> Check:
        return unanswered(name, self._candidate.role, error, *conditions)


def _answer_to_long(name: str, aimed: int, reply: Reply) -> Check:
    counted = reply.usage.prompt
    numbers: Measured = {"prompt_tokens": counted, "seconds": round(reply.timings.total, 2)}
    if wrong := corrupt(reply):
        return failed(name, f"a corrupt answer: {wrong}", Condition.LONG_CONTEXT, measured=numbers)
    if not _said(reply):
        return failed(name, "an empty answer", Condition.LONG_CONTEXT, measured=numbers)
    if 0 <= counted < aimed * 0.7:
        return skipped(
            name,
            f"the server counts {counted} prompt tokens of about {aimed}: it cuts prompts, so "
            "this length was not tried",
            measured=numbers,
        )
    told = f"{counted} prompt tokens" if counted >= 0 else "not counted by the server"
    return passed(name, f"answered in {reply.timings.total:.1f} s ({told})", measured=numbers)


def broken_call(call: Call) -> str:
    """What is wrong with a call of the function that was offered, "" if nothing is."""
    function = TOOL["function"]
    if call.name != function["name"]:
        return "names a function that was not offered"
    wrong = kept(call.arguments, function["parameters"])
    return f"has arguments that are wrong: {wrong}" if wrong else ""


def _said(reply: Reply) -> bool:
    return bool((reply.text or reply.reasoning or reply.refusal).strip())
