"""How far two servers' numbers are apart. Pure.

A *trace* is what one server said of one prompt: for each place the token, its log probability,
and its most probable tokens. Tokens are kept as short hashes: a saved reference holds no text.

Rules:
- Given tokens (of the prompt) are compared place by place: both servers saw the same text.
- Generated tokens are compared up to the first place where the two chose differently, and at that
  place, by the baseline's token: up to there both saw the same text.
- A value that is no finite number is infinitely far from one that is.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from extproc.probes.logprobs import TokenLogprob


class Place(NamedTuple):
    """One token. ``logprob`` is None where the server gave no number. ``top`` is by token."""

    token: str
    logprob: float | None
    top: Mapping[str, float | None]


class Trace(NamedTuple):
    """One prompt on one server."""

    given: tuple[Place, ...] = ()
    generated: tuple[Place, ...] = ()


class Drift(NamedTuple):
    """Of one prompt. ``mean`` and ``largest``: absolute differences of log probabilities, natural
    logarithms; ``overlap``: mean share of the top tokens that both have, None without any;
    ``places`` compared; ``diverged``: the place of the first different choice, None if none."""

    mean: float
    largest: float
    overlap: float | None
    places: int
    diverged: int | None
    same_tokens: bool = True
    """Whether both split the prompt into the same tokens."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Of all prompts: the worst of each."""

    drifts: tuple[Drift, ...]
    perplexity: float
    baseline_perplexity: float

    @property
    def mean(self) -> float:
        return max((drift.mean for drift in self.drifts), default=0.0)

    @property
    def largest(self) -> float:
        return max((drift.largest for drift in self.drifts), default=0.0)

    @property
    def overlap(self) -> float | None:
        found = [drift.overlap for drift in self.drifts if drift.overlap is not None]
        return min(found) if found else None

    @property
    def places(self) -> int:
        return sum(drift.places for drift in self.drifts)

    @property
    def perplexity_drift(self) -> float:
        """Relative to the baseline's."""
        if not (math.isfinite(self.perplexity) and math.isfinite(self.baseline_perplexity)):
            return math.inf
        return abs(self.perplexity / self.baseline_perplexity - 1.0)


def trace(given: Iterable[TokenLogprob], generated: Iterable[TokenLogprob], tokens: int) -> Trace:
    """What a reply said; of the generated tokens the first ``tokens``."""
    return Trace(
        tuple(_place(each) for each in given),
        tuple(_place(each) for each in list(generated)[:tokens]),
    )


def not_finite(traces: Sequence[Trace]) -> int:
    """Places whose log probability is no finite number. The first given token has none by right:
    nothing stands before it."""
    count = 0
    for one in traces:
        for place in [*one.given[1:], *one.generated]:
            values = [place.logprob, *place.top.values()]
            # An alternative may be impossible (-inf); the token that was chosen may not.
            bad = [v is None or math.isnan(v) or v == math.inf for v in values]
            count += any(bad) or place.logprob == -math.inf
    return count


UNIFORM = -6.0
"""A log probability below which a token is improbable: one of 400 that are equally likely. Zeroed
weights give -ln(vocabulary), about -11, at every place."""

LOWEST = -9000.0
"""Below it stands what is no number any more: vLLM writes a NaN as -9999."""

LEFT = math.log(1e-6)
"""What is left beside alternatives that add up to one, as far as rounding lets them."""

FEWEST = 4
"""Places from which equal values are no chance."""


def uniform(traces: Sequence[Trace]) -> int:
    """Prompts whose generated tokens all have the same, tiny probability: the logits are all alike,
    or were clamped. A constant that is not tiny is what a proxy fills in, and says nothing."""
    count = 0
    for one in traces:
        values = {place.logprob for place in one.generated}
        value = next(iter(values)) if len(values) == 1 else None
        alike = value is not None and value < UNIFORM and len(one.generated) >= FEWEST
        clamped = bool(values) and all(v is not None and v <= LOWEST for v in values)
        count += alike or clamped
    return count


def compare(candidate: Sequence[Trace], baseline: Sequence[Trace]) -> Comparison:
    """Both on the same prompts, in the same order."""
    drifts = []
    ours: list[float] = []
    theirs: list[float] = []
    for one, other in zip(candidate, baseline, strict=True):
        drifts.append(_drift(one, other, ours, theirs))
    return Comparison(tuple(drifts), _perplexity(ours), _perplexity(theirs))


def _drift(one: Trace, other: Trace, ours: list[float], theirs: list[float]) -> Drift:
    differences: list[float] = []
    overlaps: list[float] = []
    same = [p.token for p in one.given] == [p.token for p in other.given]
    if same:
        for mine, base in list(zip(one.given, other.given, strict=True))[1:]:
            _note(mine.logprob, mine, base, differences, overlaps, ours, theirs)
    diverged = None
    for at, (mine, base) in enumerate(zip(one.generated, other.generated, strict=False)):
        chosen = (
            mine.logprob if mine.token == base.token else mine.top.get(base.token, _least(mine))
        )
        _note(chosen, mine, base, differences, overlaps, ours, theirs)
        if mine.token != base.token:
            diverged = at
            break
    return Drift(
        sum(differences) / len(differences) if differences else 0.0,
        max(differences, default=0.0),
        sum(overlaps) / len(overlaps) if overlaps else None,
        len(differences),
        diverged,
        same,
    )


def _note(
    value: float | None,
    mine: Place,
    base: Place,
    differences: list[float],
    overlaps: list[float],
    ours: list[float],
    theirs: list[float],
) -> None:
    if base.logprob is None or not math.isfinite(base.logprob):
        return  # nothing to hold against; the baseline's own check says so
    finite = value is not None and math.isfinite(value)
    number = value if finite and value is not None else -math.inf
    differences.append(abs(number - base.logprob))
    ours.append(number)
    theirs.append(base.logprob)
    if mine.top and base.top:
        k = min(len(mine.top), len(base.top))
        overlaps.append(len(_first(mine.top, k) & _first(base.top, k)) / k)


def _first(top: Mapping[str, float | None], k: int) -> set[str]:
    def weight(token: str) -> float:
        value = top[token]
        return -math.inf if value is None or math.isnan(value) else value

    return set(sorted(top, key=weight, reverse=True)[:k])


def _least(place: Place) -> float | None:
    """The most that a token outside the list can have: no more than the last of the list, and no
    more than the list leaves."""
    listed = {**place.top, place.token: place.logprob}
    values = [value for value in listed.values() if value is not None and math.isfinite(value)]
    if not values:
        return None
    left = 1.0 - sum(math.exp(value) for value in values)
    return min(*values, math.log(left) if left > 0 else LEFT, 0.0)


def _perplexity(values: Sequence[float]) -> float:
    if not values:
        return math.nan
    mean = sum(values) / len(values)
    try:
        return math.exp(-mean)
    except OverflowError:
        return math.inf


def _place(entry: TokenLogprob) -> Place:
    return Place(
        hashed(entry.token),
        entry.logprob,
        {hashed(token): value for token, value in entry.top},
    )


def hashed(token: str) -> str:
    """What stands for a token's text."""
    return hashlib.blake2b(token.encode("utf-8", "replace"), digest_size=6).hexdigest()


def as_json(traces: Sequence[Trace]) -> list[Any]:
    """Traces to be kept. Only finite numbers are written; others are null."""
    return [
        [
            [[p.token, _finite(p.logprob), {t: _finite(v) for t, v in p.top.items()}] for p in part]
            for part in one
        ]
        for one in traces
    ]


def from_json(content: Any) -> list[Trace]:
    """Traces that were kept. Raises KeyError, TypeError or ValueError."""
    return [
        Trace(
            *(
                tuple(Place(str(token), value, dict(top)) for token, value, top in part)
                for part in one
            )
        )
        for one in content
    ]


def _finite(value: float | None) -> float | None:
    return round(value, 6) if value is not None and math.isfinite(value) else None
