"""What every dialect shares: the interface, and reading fields that may be anything."""

from __future__ import annotations

from typing import Any, ClassVar

import orjson

from extproc.wire.errors import failure_in
from extproc.wire.events import Channel, Event, Finish, Logprobs, Text, Usage

Json = dict[str, Any]


class Dialect:
    """Reads the JSON documents of one API. One instance serves one response."""

    __slots__ = ("terminated",)

    terminator: ClassVar[str] = ""
    """A stream's last word by which its end can be told from a cut; "" when there is none."""

    finishes: ClassVar[bool] = False
    """Whether a complete answer gives a finish reason for every choice."""

    def __init__(self) -> None:
        self.terminated = False
        """Whether the last word was among the chunks (``[DONE]`` is the reader's to notice)."""

    lines: ClassVar[bool] = False
    """Whether streams of this API are newline-delimited JSON."""

    @property
    def chosen(self) -> Dialect:
        """The dialect that is being read: this one, unless it is one that chooses another."""
        return self

    def chunk(self, event: bytes, document: Any, out: list[Event]) -> None:
        """Events of one streamed document. ``event`` is the SSE event name, empty if none."""
        raise NotImplementedError

    def body(self, document: Any, out: list[Event]) -> None:
        """Events of a whole, unstreamed body: a JSON value, or the text of a text/plain body."""
        raise NotImplementedError

    def overlong(self, event: bytes, head: bytes, out: list[Event]) -> bool:
        """Takes a message too long to be kept, of which ``head`` is the beginning.

        True when it only repeats what was streamed before (a last message with the whole text),
        so that nothing was missed.
        """
        return False


REASONS = {
    "end_turn": "stop",  # Anthropic
    "stop_sequence": "stop",  # Anthropic, TGI
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
    "model_context_window_exceeded": "length",
    "completed": "stop",  # Responses
    "max_output_tokens": "length",
    "failed": "error",
    "eos": "stop",  # llama.cpp
    "word": "stop",
    "limit": "length",
    "eos_token": "stop",  # TGI
    "function_call": "tool_calls",  # OpenAI's older API
    "COMPLETE": "stop",  # Cohere
    "MAX_TOKENS": "length",
}
"""Finish reasons of the APIs -> the words of OpenAI's chat API; others stay as they are."""


def finish(choice: int, reason: Any, out: list[Event]) -> None:
    """A finish, if ``reason`` is one. What is not one plain word could be text: ``other``."""
    if not reason:
        return
    if type(reason) is not str or len(reason) > 40 or not reason.replace("_", "a").isalnum():
        reason = "other"
    out.append(Finish(choice, REASONS.get(reason, reason)))


def objects(value: Any) -> list[Json]:
    """The objects in a list field; [] for anything else (null, missing, a wrong type)."""
    if type(value) is list:
        return [item for item in value if type(item) is dict]
    return []


def compact(value: Any) -> str:
    """A JSON value that the API sends decoded (tool arguments), as the text it was generated as."""
    try:
        return orjson.dumps(value).decode()
    except (orjson.JSONEncodeError, UnicodeDecodeError):
        return ""  # an integer past 64 bits, or nested too deeply


def integer(value: Any, default: int) -> int:
    """An integer field, or ``default`` for anything else."""
    return value if type(value) is int else default


def string(value: Any) -> str:
    """A string field, or "" for anything else."""
    return value if type(value) is str else ""


def number(value: Any) -> float | None:
    """A numeric field as float, or None for anything else."""
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")
    return None


def failure(document: Json, out: list[Event]) -> bool:
    """Whether ``document`` is an error object; if so it is reported."""
    found = failure_in(document)
    if found is None:
        return False
    out.append(found)
    return True


def text(
    choice: int, channel: Channel, value: Any, tokens: int, out: list[Event], part: int = 0
) -> None:
    """A piece of text, if ``value`` is a string: an empty one counts when it stands for tokens."""
    if type(value) is str and (value or tokens):
        out.append(Text(choice, channel, value, tokens, part))


def usage(document: Json, out: list[Event]) -> None:
    """Token counts under ``usage``, by OpenAI's names or Anthropic's, if they are there."""
    counts = document.get("usage")
    if type(counts) is dict:
        details = counts.get("completion_tokens_details") or counts.get("output_tokens_details")
        out.append(
            Usage(
                integer(counts.get("prompt_tokens", counts.get("input_tokens")), -1),
                integer(counts.get("completion_tokens", counts.get("output_tokens")), -1),
                integer(details.get("reasoning_tokens"), -1) if type(details) is dict else -1,
            )
        )


def token_logprobs(choice: int, items: Any, out: list[Event]) -> None:
    """``[{token, logprob, top_logprobs: [{logprob}]}]``, the layout of chat completions.

    Responses, Ollama, llama.cpp and transcriptions use it too. llama.cpp writes ``prob`` and
    ``top_probs`` in its place after sampling.
    """
    entries = objects(items)
    if not entries:
        return
    if "logprob" not in entries[0]:
        if "prob" in entries[0]:
            return  # probabilities: another scale, and a null is no evidence here
        entries = [entry for entry in entries if "logprob" in entry]
        if not entries:
            return
    out.append(
        Logprobs(
            choice,
            tuple([string(entry.get("token")) for entry in entries]),
            tuple([number(entry.get("logprob")) for entry in entries]),
            tuple([_alternatives(entry.get("top_logprobs")) for entry in entries]),
        )
    )


def _alternatives(tops: Any) -> tuple[float | None, ...]:
    return tuple([number(top.get("logprob")) for top in objects(tops)])
