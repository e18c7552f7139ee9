"""What every dialect shares: the protocol, and reading fields that may be anything."""

from __future__ import annotations

from typing import Any, Protocol

from extproc.wire.events import Event, Failure, Logprobs, Usage

Json = dict[str, Any]


class Dialect(Protocol):
    """Reads the JSON documents of one API. One instance serves one response."""

    def chunk(self, event: bytes, document: Any, out: list[Event]) -> None:
        """Events of one streamed document. ``event`` is the SSE event name, empty if none."""

    def body(self, document: Any, out: list[Event]) -> None:
        """Events of a whole, unstreamed body."""


def objects(value: Any) -> list[Json]:
    """The objects in a list field; [] for anything else (null, missing, a wrong type)."""
    if type(value) is list:
        return [item for item in value if type(item) is dict]
    return []


def integer(value: Any, default: int) -> int:
    """An integer field, or ``default`` for anything else."""
    return value if type(value) is int else default


def string(value: Any) -> str:
    """A string field, or "" for anything else."""
    return value if type(value) is str else ""


def number(value: Any) -> float | None:
    """A numeric field as float, or None for anything else."""
    return float(value) if type(value) in (int, float) else None


def failure(document: Json, out: list[Event]) -> bool:
    """Whether ``document`` is an error object; if so it is reported by its type or code alone."""
    error = document.get("error")
    if not error:
        return False
    fields = error if type(error) is dict else document
    code = fields.get("type") or fields.get("code") or ""
    code = str(code)
    out.append(
        Failure(
            code
            if code.isascii() and len(code) <= 40 and code.replace("_", "").isalnum()
            else "error"
        )
    )
    return True


def usage(document: Json, out: list[Event]) -> None:
    """Token counts under ``usage``, if it is there."""
    counts = document.get("usage")
    if type(counts) is dict:
        out.append(
            Usage(
                integer(counts.get("prompt_tokens"), -1),
                integer(counts.get("completion_tokens"), -1),
            )
        )


def token_logprobs(choice: int, items: Any, out: list[Event]) -> None:
    """``[{token, logprob, top_logprobs: [{logprob}]}]``, the layout of chat completions."""
    entries = objects(items)
    if entries:
        out.append(
            Logprobs(
                choice,
                tuple(string(entry.get("token")) for entry in entries),
                tuple(number(entry.get("logprob")) for entry in entries),
                tuple(
                    tuple(number(top.get("logprob")) for top in objects(entry.get("top_logprobs")))
                    for entry in entries
                ),
            )
        )
