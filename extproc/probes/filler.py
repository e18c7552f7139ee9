"""Text of a wanted length to stand before a question: plain, varied, and the same every time.

Sentences are put together from short lists, by a seed, and numbered: no two are alike, so that a
model is not led into a loop of its own, and a prefix cache meets the same text again.
"""

from __future__ import annotations

import random

_WHO = (
    "The baker|A young teacher|The night train|An old sailor|The museum|A small team|The gardener|"
    "The harbour office|A careful driver|The library|My neighbour|The weather station"
).split("|")
_DOES = (
    "opened|repaired|described|painted|measured|carried|counted|visited|cleaned|recorded|"
    "ordered|remembered"
).split("|")
_WHAT = (
    "a wooden bridge|three boxes of apples|the southern gate|a map of the coast|two bicycles|"
    "the winter schedule|an empty notebook|the stone wall|a letter from abroad|the green lamp|"
    "four kettles|the oldest photograph"
).split("|")
_WHERE = (
    "near the river|before breakfast|in the early spring|behind the station|on a quiet Tuesday|"
    "for the first time|without any hurry|at the end of the street|during the storm|"
    "in front of the school|after a long walk|under the tall trees"
).split("|")

TOKENS_A_BYTE = 0.5
"""Tokens that a byte of plain English comes to at most, before a tokenizer has been asked. Common
vocabularies need a fifth."""

MARGIN = 1.25
"""On top of a measured rate: other words than the measured ones may cost more."""

OVERHEAD = 256
"""Tokens that a chat template may add: its own system prompt, roles, how tools are declared."""


def filler(size: int, seed: int = 0) -> str:
    """At least ``size`` bytes of sentences, at most 120 more."""
    rng = random.Random(seed)
    lines: list[str] = []
    length, number = 0, 0
    while length < size:
        number += 1
        line = f"{number}. {rng.choice(_WHO)} {rng.choice(_DOES)} {rng.choice(_WHAT)} "
        line += f"{rng.choice(_WHERE)}."
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines)


class Tokens:
    """How many tokens a text comes to: estimates that are never too small once measured.

    ``rate``: tokens a byte, measured with filler; None until then.
    """

    def __init__(self, rate: float | None = None) -> None:
        self.rate = rate

    def most(self, size: int) -> int:
        """Prompt tokens that ``size`` bytes come to at most."""
        rate = min(1.0, self.rate * MARGIN) if self.rate else TOKENS_A_BYTE
        return int(size * rate) + OVERHEAD

    def bytes_for(self, tokens: int) -> int:
        """Bytes of filler that come to about ``tokens``."""
        return int(tokens / (self.rate or 0.25))

    def measured(self, size: int, tokens: int) -> None:
        """``size`` bytes came to ``tokens``, template and all."""
        if size >= 512 and tokens > 0:
            self.rate = max(self.rate or 0.0, tokens / size)
