"""What the client got, judged without the sidecar.

Two independent reasons to call a delivered answer corrupt: the body names the corrupt build (the
inference servers put their build's name into every answer), or the text is no text. Neither knows
anything of the sidecar's detectors; the first does not even look at the text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

FEW = 8
"""Words of one kind that make an answer degenerate; the prompts' healthy answers vary at once."""


@dataclass(slots=True)
class Answer:
    """One answer as the client read it."""

    text: str = ""
    models: set[str] = field(default_factory=set)
    completion_tokens: int = 0
    null_logprobs: bool = False
    finished: bool = False
    """Whether a finish reason came: an answer cut short has none."""


def read_json(body: bytes) -> Answer:
    """Reads a whole JSON answer. Raises ``ValueError`` when it is none."""
    answer = Answer()
    _take(answer, json.loads(body), "message")
    return answer


def read_stream(body: bytes) -> Answer:
    """Reads a whole event stream. Raises ``ValueError`` when an event is no JSON."""
    answer = Answer()
    for line in body.splitlines():
        data = line.removeprefix(b"data:").strip() if line.startswith(b"data:") else b""
        if data and data != b"[DONE]":
            _take(answer, json.loads(data), "delta")
    return answer


def is_corrupt(answer: Answer, corrupt_builds: set[str]) -> bool:
    """Whether a client was given what no client should get."""
    return bool(answer.models & corrupt_builds) or answer.null_logprobs or _degenerate(answer)


def _degenerate(answer: Answer) -> bool:
    text = answer.text.strip()
    if not text:
        return answer.completion_tokens > 0
    words = text.split()
    one_sign = len(text) >= FEW and len(set(text)) == 1
    return one_sign or (len(words) >= FEW and len(set(words)) == 1)


def _take(answer: Answer, message: Any, part: str) -> None:
    if not isinstance(message, dict):
        raise ValueError("an answer that is no JSON object")
    answer.models.add(str(message.get("model")))
    usage = message.get("usage") or {}
    answer.completion_tokens = max(answer.completion_tokens, usage.get("completion_tokens", 0))
    for choice in message.get("choices") or ():
        answer.text += (choice.get(part) or {}).get("content") or ""
        answer.finished |= bool(choice.get("finish_reason"))
        for entry in (choice.get("logprobs") or {}).get("content") or ():
            answer.null_logprobs |= "logprob" in entry and entry["logprob"] is None
