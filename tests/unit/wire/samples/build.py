"""What samples are made of."""

from __future__ import annotations

import json
import struct
from typing import Any, NamedTuple

from extproc.wire import Channel, Ended, Event, Framing, Logprobs

C, R, F, A = Channel.CONTENT, Channel.REASONING, Channel.REFUSAL, Channel.TOOL_ARGUMENTS


class Sample(NamedTuple):
    """A body, how it is read, and what it says."""

    dialect: str
    framing: Framing
    body: bytes
    events: list[Event]


def sse(*documents: Any, done: bool = True) -> bytes:
    """An event stream of data messages."""
    lines = [f"data: {json.dumps(d, ensure_ascii=False)}\n\n" for d in documents]
    return ("".join(lines) + ("data: [DONE]\n\n" if done else "")).encode()


def typed(*documents: dict[str, Any]) -> bytes:
    """An event stream whose messages are named after their type."""
    return "".join(
        f"event: {d['type']}\ndata: {json.dumps(d, ensure_ascii=False)}\n\n" for d in documents
    ).encode()


def lines(*documents: Any) -> bytes:
    """Newline-delimited JSON."""
    return "".join(json.dumps(d, ensure_ascii=False) + "\n" for d in documents).encode()


def delta(
    index: int = 0, finish: str | None = None, logprobs: Any = None, **fields: Any
) -> dict[str, Any]:
    """A chunk of a chat stream."""
    choice = {"index": index, "delta": fields, "logprobs": logprobs, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice]}


def floats(*values: float) -> bytes:
    """What Vector.data holds for these values."""
    return struct.pack(f"<{len(values)}d", *values)


LOGPROBS: dict[str, Any] = {
    "content": [
        {
            "token": "né",
            "logprob": -0.5,
            "bytes": [110, 195, 169],
            "top_logprobs": [{"token": "né", "logprob": -0.5}, {"token": "b", "logprob": None}],
        },
        {"token": "b", "logprob": None, "bytes": None, "top_logprobs": []},
    ]
}
LOGPROB_EVENT = Logprobs(0, ("né", "b"), (-0.5, None), ((-0.5, None), ()))

STREAM_END = Ended(streamed=True, finishes=True)
BODY_END = Ended(streamed=False, finishes=True)
PLAIN_END = Ended(streamed=False, finishes=False)
