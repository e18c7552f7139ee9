"""Triton's generate extension (``/v2/models/*/generate``), as TensorRT-LLM's ensembles fill it."""

from __future__ import annotations

from typing import Any

from extproc.wire.dialects.base import Dialect, failure, number, text
from extproc.wire.events import Channel, Event, Logprobs


class Triton(Dialect):
    """The output tensors by name. Neither a finish reason nor a last word exists."""

    __slots__ = ()

    def chunk(self, event: bytes, document: Any, out: list[Event]) -> None:
        self._read(document, 1, out)

    def body(self, document: Any, out: list[Event]) -> None:
        self._read(document, 0, out)

    def _read(self, document: Any, tokens: int, out: list[Event]) -> None:
        if type(document) is not dict:
            return
        failure(document, out)
        output = document.get("text_output")
        for choice, piece in enumerate(output if type(output) is list else [output]):
            text(choice, Channel.CONTENT, piece, tokens, out)
        values = document.get("output_log_probs")
        if type(values) is list:
            logprobs = tuple(number(value) for value in values)
            # The tensor is filled with zeros when no log probabilities were asked for.
            if any(logprob != 0.0 for logprob in logprobs):
                out.append(Logprobs(0, ("",) * len(logprobs), logprobs))
