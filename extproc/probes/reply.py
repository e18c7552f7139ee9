"""One answer, read: text, calls, probabilities, vectors, counts, times, and our own verdict."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from extproc.detect import Finding, Kind, Verdict
from extproc.probes.logprobs import TokenLogprob, of_documents
from extproc.wire import (
    Channel,
    Event,
    Failure,
    Finish,
    Malformed,
    Text,
    ToolCall,
    Unterminated,
    Usage,
    Vector,
)
from extproc.wire.json import Unreadable, lenient


class Call(NamedTuple):
    """A tool call: the function's name, and its arguments as they were generated (JSON text)."""

    name: str
    arguments: str


class Counts(NamedTuple):
    """Tokens as the server counts them; -1 where it does not say. ``cached``: of the prompt."""

    prompt: int = -1
    completion: int = -1
    cached: int = -1

    @property
    def total(self) -> int:
        """Prompt and completion, -1 when either is not known."""
        return self.prompt + self.completion if min(self.prompt, self.completion) >= 0 else -1


class Timings(NamedTuple):
    """Seconds from the sending of the request. ``first_token`` is None where nothing streamed."""

    headers: float
    total: float
    first_token: float | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with status 200, or the one behind a ``BadStatus``.

    ``text`` and ``reasoning`` are of the first choice. ``text`` and everything made from it is for
    judging only: it must not reach logs, metrics or stores, so it is no part of ``repr``.
    """

    path: str
    status: int
    verdict: Verdict
    timings: Timings
    model: str = ""
    via: str = ""
    """The unit that a sidecar of ours named on the way; "" for an answer that passed none."""

    text: str = field(default="", repr=False)
    reasoning: str = field(default="", repr=False)
    refusal: str = field(default="", repr=False)
    calls: tuple[Call, ...] = field(default=(), repr=False)
    prompt_logprobs: tuple[TokenLogprob, ...] = field(default=(), repr=False)
    logprobs: tuple[TokenLogprob, ...] = field(default=(), repr=False)
    vectors: tuple[Vector, ...] = field(default=(), repr=False)
    finish: str = ""
    """In the words of OpenAI's chat API, "" when the server gave none."""

    usage: Counts = Counts()
    whole: bool = True
    """Whether the answer came to its own end: a stream with its last word, a body that parses."""

    documents: tuple[Any, ...] = field(default=(), repr=False)
    """The JSON body, or the JSON of each streamed message."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Those of the verdict."""
        return self.verdict.findings

    @property
    def corrupt(self) -> bool:
        """Whether our own detectors call it corrupt."""
        return self.verdict.kind is Kind.CORRUPT


def assemble(
    path: str,
    status: int,
    body: bytes,
    streamed: bool,
    events: Sequence[Event],
    verdict: Verdict,
    timings: Timings,
    echoed: bool = False,
    via: str = "",
) -> Reply:
    """The reply whose bytes are ``body`` and whose events the wire's reader gave.

    ``echoed``: the request asked for its prompt to come back.
    """
    documents = tuple(_documents(body, streamed))
    usage = _usage(events, documents)
    logprobs = of_documents(documents, usage.completion if echoed else -1)
    texts: dict[Channel, list[str]] = {}
    names: dict[int, str] = {}
    arguments: dict[int, list[str]] = {}
    finish = ""
    for event in events:
        if isinstance(event, Text) and event.choice == 0:
            if event.channel is Channel.TOOL_ARGUMENTS:
                arguments.setdefault(event.part, []).append(event.text)
            else:
                texts.setdefault(event.channel, []).append(event.text)
        elif isinstance(event, ToolCall) and event.choice == 0:
            names[event.part] = names.get(event.part, "") or event.name
        elif isinstance(event, Finish) and event.choice == 0:
            finish = event.reason

    def text(channel: Channel) -> str:
        return "".join(texts.get(channel, ()))

    return Reply(
        path=path,
        status=status,
        verdict=verdict,
        timings=timings,
        model=_model(documents),
        via=via,
        text=text(Channel.CONTENT),
        reasoning=text(Channel.REASONING),
        refusal=text(Channel.REFUSAL),
        calls=tuple(
            Call(names.get(part, ""), "".join(arguments.get(part, ())))
            for part in sorted(names.keys() | arguments.keys())
        ),
        prompt_logprobs=logprobs.prompt,
        logprobs=logprobs.generated,
        vectors=tuple(
            sorted((e for e in events if isinstance(e, Vector)), key=lambda each: each.position)
        ),
        finish=finish,
        usage=usage,
        whole=bool(documents)
        and not any(isinstance(e, Malformed | Unterminated | Failure) for e in events),
        documents=documents,
    )


def _documents(body: bytes, streamed: bool) -> Iterable[Any]:
    """JSON by any reading: a broken engine writes NaN, which is what is looked for here."""
    if not streamed:
        pieces = [body]
    else:
        lines = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        pieces = [line[5:] for line in lines if line.startswith(b"data:")] or lines
    for piece in pieces:
        piece = piece.strip()
        if piece and piece != b"[DONE]":
            try:
                yield lenient(piece, [])
            except Unreadable:
                continue


def _usage(events: Iterable[Event], documents: Iterable[Any]) -> Counts:
    prompt = completion = cached = -1
    for event in events:
        if isinstance(event, Usage):
            prompt = max(prompt, event.prompt_tokens)
            completion = max(completion, event.completion_tokens)
    for document in documents:
        details = _inside(document, "usage", "prompt_tokens_details", "cached_tokens")
        timings = _inside(document, "timings", "cache_n")  # llama.cpp
        for value in (details, timings):
            if type(value) is int:
                cached = max(cached, value)
    return Counts(prompt, completion, cached)


def _inside(value: Any, *names: str) -> Any:
    for name in names:
        if type(value) is not dict:
            return None
        value = value.get(name)
    return value


def _model(documents: Iterable[Any]) -> str:
    for document in documents:
        if type(document) is dict and type(document.get("model")) is str:
            return str(document["model"])[:256]
    return ""


def server_message(body: bytes, key: str, most: int) -> str:
    """What a server says in an error body: one line, capped, and without the key."""
    text = body[:65536].decode(errors="replace")
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if type(content) is dict:
        error = content.get("error")
        found = error.get("message") if type(error) is dict else error
        for candidate in (found, content.get("message"), content.get("detail")):
            if type(candidate) is str and candidate:
                text = candidate
                break
    text = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    if key:
        text = text.replace(key, "***")
    return text if len(text) <= most else f"{text[: most - 3]}..."
