"""Requests that ask for what would otherwise prove a fault."""

from __future__ import annotations

from extproc.wire import RequestFacts

HOT = 1.5
"""Temperature from which on a healthy model's own distribution is flat enough for salad."""

_LOOPS = frozenset({"repetition", "recurrence", "deltas", "whitespace", "stutter"})
_GARBLE = frozenset(
    {"salad", "script_mixing", "decoding", "special_tokens", "tokenizer_marks", "order", "symbols"}
    | {"function_words", "welds"}
)
_NONE: frozenset[str] = frozenset()


def excused(request: RequestFacts) -> frozenset[str]:
    """Detectors whose proofs are hints for this request.

    An echoed prompt is the client's text. Past an ignored end of sequence a healthy model writes
    anything. A high temperature draws nearly evenly from the vocabulary.
    """
    if request.echo or request.ignore_eos:
        return _LOOPS | _GARBLE
    if request.temperature is not None and request.temperature >= HOT:
        return _GARBLE
    return _NONE
