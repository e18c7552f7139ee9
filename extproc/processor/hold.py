"""The adaptive hold: how long the response headers are withheld.

While they are, Envoy's router has sent nothing to the client, and the request can still be
retried on another unit. A beginning that is ordinary is let go at once; one that could still be
a fault waits, within bounds that no upstream and no client can stretch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from extproc.detect import Inspector
from extproc.health import State


class Release(StrEnum):
    """Why a hold ended."""

    CORRUPT = "corrupt"
    ORDINARY = "ordinary"
    TOKENS = "tokens"
    BYTES = "bytes"
    ENDED = "ended"
    DEADLINE = "deadline"
    GAP = "gap"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class HoldPolicy:
    """Bounds of the hold; whichever is reached first ends it.

    ``tokens``: of a beginning that stays suspicious. ``bytes``: received, well below Envoy's own
    buffer limit (1 MiB), at which it stops reading. ``deadline`` and ``gap``, in seconds: since
    the headers, and since the last message. ``gap`` must stay below the filter's
    ``message_timeout``, which Envoy starts anew with each message it sends. ``observe_tokens``:
    tokens that even an ordinary beginning waits for while its unit is observed.

    ``patience``, in seconds: how long Envoy waits when asked to (its ``max_message_timeout``), 0
    when it does not. With it a gap does not end a hold: Envoy is asked for more time instead. An
    engine that sends its headers and then reads a long prompt is waited for that long, and
    ``deadline`` counts from the first body message: before it there was nothing to withhold.
    """

    enabled: bool = True
    tokens: int = 32
    bytes: int = 65536
    deadline: float = 4.0
    gap: float = 0.8
    observe_tokens: int = 16
    patience: float = 0.0


def decide(
    policy: HoldPolicy, state: State, streamed: bool, inspector: Inspector, received: int
) -> Release | None:
    """Whether the hold ends now, while the body still comes. ``received`` is in bytes."""
    if inspector.corrupt:
        return Release.CORRUPT
    if received >= policy.bytes:
        return Release.BYTES
    if not streamed:
        return None  # a whole body is judged whole
    if inspector.tokens >= policy.tokens:
        return Release.TOKENS
    if inspector.ordinary and (state is State.PASS or inspector.tokens >= policy.observe_tokens):
        return Release.ORDINARY
    return None
