"""What a window of text is like: numbers on which salad and healthy text differ."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from extproc.detect.salad.letters import (
    CLASSES,
    DIGIT,
    LOWER,
    NEWLINE,
    OTHER,
    SPACE,
    UPPER,
    folded,
    kinds,
    points,
    trigrams,
)

STEP = 0.5
"""Nats of one level in the table of surprises."""

_WORD = re.compile(r"[A-Za-z]+(?:'[a-z]+)?")
LEAST_LETTERS = 48

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Tables:
    """What natural text is like.

    ``surprise``: uint8, (27 * 27 * 27, languages): -ln P(third letter | first two) in STEPs.
    ``common``: the classes of common English words; ``pairs``: uint8, (classes + 1, classes + 1):
    -ln P(class of the next word | class of this) in STEPs; the last class is every other word.
    """

    surprise: NDArray[np.uint8]
    common: dict[str, int]
    pairs: NDArray[np.uint8]


def covered(codes: NDArray[np.uint32], kind: NDArray[np.uint8]) -> bool:
    """Whether the statistics have anything to say: enough letters, nearly all of them Latin."""
    counts = np.bincount(kind, minlength=CLASSES)
    latin = int(counts[LOWER] + counts[UPPER])
    return bool(latin >= LEAST_LETTERS and counts[OTHER] <= 0.08 * latin and latin >= 0.4 * codes.size)


def features(text: str, tables: Tables, skip: int = -1) -> Array | None:
    """The vector of a window, None where the statistics do not apply.

    ``skip``: a language to leave out (training on text as if its language were not covered).
    """
    codes = points(text)
    kind = kinds(codes)
    if not covered(codes, kind):
        return None
    letters = folded(codes)
    index = trigrams(letters)
    rows = tables.surprise[index]
    sums = rows.sum(axis=0, dtype=np.int32)
    if skip >= 0:
        sums[skip] = 1 << 30
    best = int(sums.argmin())
    count = index.size
    mean = float(sums[best]) * STEP / count
    # Trigrams belong to the word of their last letter, the blank after a word to that word.
    starts = np.flatnonzero(letters[:-1] == 0)
    starts = starts[starts < count]
    lengths = np.diff(np.append(starts, letters.size - 1)) - 1
    column = rows[:, best]
    per_word = np.add.reduceat(column, starts, dtype=np.int32) * STEP
    sizes = np.diff(np.append(starts, count))
    word_mean = per_word / np.maximum(sizes, 1)
    own = np.add.reduceat(rows, starts, axis=0, dtype=np.int32)
    if skip >= 0:
        own[:, skip] = 1 << 20
    gap = mean - float(own.min(axis=1).sum()) * STEP / count
    long = lengths >= 4
    longs = max(1, int(long.sum()))
    words = lengths.size
    surprises = word_mean[long] if long.any() else np.zeros(1)
    pair = kind[:-1].astype(np.int32) * CLASSES + kind[1:]
    form = np.sqrt(np.bincount(pair, minlength=CLASSES * CLASSES) / pair.size)
    spoken = _WORD.findall(text.lower())
    other = len(tables.common)
    ids = [tables.common.get(word, other) for word in spoken]
    known = [i != other for i in ids]
    both = odd = 0
    total = 0.0
    pairs = tables.pairs
    for a, b in zip(ids, ids[1:], strict=False):
        if a != other and b != other:
            both += 1
            value = int(pairs[a, b])
            total += value
            odd += value >= 14
    n = max(1, len(ids))
    distinct = len(set(spoken)) / n
    newlines = text.count("\n\n\n")
    scalars = np.array(
        [
            mean,
            gap,
            float(sums[0]) * STEP / count - mean,
            float(np.mean(column >= 8)),
            float(np.mean(column >= 12)),
            float(np.mean(surprises > 2.6)),
            float(np.mean(surprises > 3.2)),
            float(np.mean(surprises > 4.0)),
            float(surprises.std()),
            float(surprises.max()),
            float(np.log1p(lengths.max())),
            float(lengths.mean()) / 10,
            float(np.mean(lengths <= 2)),
            longs / words,
            distinct,
            sum(known) / n,
            both / n,
            odd / n,
            total * STEP / max(1, both) / 4,
            np.log(codes.size) / 6,
            np.log(words + 1) / 5,
            np.log1p(newlines),
            float(np.count_nonzero(kind == DIGIT)) / codes.size,
            float(np.count_nonzero((kind == SPACE) | (kind == NEWLINE))) / codes.size,
        ],
        np.float32,
    )
    return np.concatenate((scalars, form.astype(np.float32)))
