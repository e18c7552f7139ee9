"""What the run came to, and whether the promise was kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from extproc.demo.board import Board
from extproc.demo.topology import UNIT_A, UNIT_B

BOTH_FLAGS = ("failed_active_hc", "failed_outlier_check")
"""What Envoy says of a unit that its health checks hold out, and that it has ejected by itself."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The object that ``--json`` prints. Times are in seconds."""

    requests: int
    corrupt_generated: int
    """Requests that reached the corrupt build, counted by Envoy."""

    corrupt_seen: int
    """Answers of unit A that the sidecar judged corrupt."""

    corrupt_delivered: int
    """Corrupt answers that a client got, judged by the client."""

    retried_to_fallback: int
    passed_unjudged: int
    """Answers that Envoy let pass because the sidecar was late, by Envoy's count."""

    errors: int
    unit_a_state: str
    unit_a_mode: str
    unit_a_envoy_flags: str
    """Every flag that Envoy put on unit A during the run."""

    unit_b_state: str
    unit_b_envoy_flags: str
    unit_b_answers: int
    seconds_to_quarantine: float | None
    """From the moment the corrupt build was given its first request."""

    seconds: float
    upstream: str
    kept: bool
    """The promise: no corrupt answer delivered, no error, unit A out by both ways, B serving."""

    first_error: str

    def as_dict(self) -> dict[str, object]:
        """As JSON wants it."""
        return asdict(self)


def summarize(
    board: Board, unit_b: str, rolled_out: float, seconds: float, upstream: str
) -> Summary:
    """``unit_b``: the alias of unit B's build. ``rolled_out``: when the corrupt build was given its
    first requests, on the board's clock."""
    one, other, tally = board.rows[UNIT_A], board.rows[UNIT_B], board.tally
    at = board.quarantined_at
    return Summary(
        requests=tally.requests,
        corrupt_generated=board.corrupt_generated,
        corrupt_seen=one.status.corrupt,
        corrupt_delivered=tally.corrupt_delivered,
        retried_to_fallback=board.retries,
        passed_unjudged=board.unjudged,
        errors=tally.errors,
        unit_a_state=one.status.state,
        unit_a_mode=one.status.mode,
        unit_a_envoy_flags=_flags(one.flags_ever),
        unit_b_state=other.status.state,
        unit_b_envoy_flags=_flags(other.flags_ever),
        unit_b_answers=tally.answers[unit_b],
        seconds_to_quarantine=None if at is None else round(at - rolled_out, 2),
        seconds=round(seconds, 1),
        upstream=upstream,
        kept=is_kept(board) and tally.answers[unit_b] > 0,
        first_error=tally.first_error,
    )


def is_held_out(board: Board) -> bool:
    """Whether unit A is in quarantine, and Envoy has taken it out by both ways."""
    row = board.rows[UNIT_A]
    return row.status.state == "quarantine" and row.flags_ever.issuperset(BOTH_FLAGS)


def is_kept(board: Board) -> bool:
    """Whether the promise holds so far, after the corrupt build answered."""
    tally, other = board.tally, board.rows[UNIT_B]
    clean = not tally.corrupt_delivered and not tally.errors and board.corrupt_generated > 0
    return clean and is_held_out(board) and other.status.state == "pass" and not other.flags_ever


def _flags(flags: frozenset[str]) -> str:
    return "".join(f"/{flag}" for flag in sorted(flags)) or "healthy"
