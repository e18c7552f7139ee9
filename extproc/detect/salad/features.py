"""What a window of text is like: numbers on which salad and healthy text differ."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from extproc.detect.salad.letters import (
    BRACKET,
    CLASSES,
    DIGIT,
    LOWER,
    NEWLINE,
    OTHER,
    QUOTE,
    SIGN,
    SPACE,
    UPPER,
    folded,
    kinds,
    points,
    trigrams,
)

_BULLET = re.compile(r"\n\s*[-*+•] ")
BULLETS = 3
"""Bulleted lines in a window, from which on it is a list of names and fragments."""
_CAMEL = re.compile(r"[a-z]\.?[A-Z][a-z]")
_UNDERSCORED = re.compile(r"[A-Za-z0-9]_[A-Za-z0-9]")
"""One in four or five words with one, and these are names of code."""
ATTRIBUTES = 2
"""Values of attributes in a window, from which on it is markup."""
LEFT = 160
"""Characters beside the addresses of a window, below which they are most of it."""
CELLS = 3
"""Joints of quoted cells in a window, from which on it is data, whatever the cells say."""
MOST_NAMES = 0.3
"""Joints of camel case a word, beyond which the words are identifiers."""
LONGEST_NAME = 45
"""Letters; what is welded beyond that is no identifier."""
RECORDS = 4
"""Lines."""
_URL = re.compile(r"\w+://\S*")
JOINT = 0.3
"""Weight of joints beside signs: both together are code sooner."""
ADDRESSES = 3
"""At-signs or URLs in a window, from which on it is a list of names and addresses: no language."""
STEP = 0.5
"""Nats of one level in the table of surprises."""

_WORD = re.compile(r"[A-Za-z]+(?:'[a-z]+)?")
LEAST_LETTERS = 48
MOST_DIGITS = 0.12
"""Share of digits, beyond which it is data."""
MOST_QUOTES = 0.1
"""Share of quotes and hyphens, beyond which it is data."""
MOST_BLANKS = 0.3
"""Share of blanks within lines, beyond which it is a table."""
MOST_SIGNS = 0.13
"""Share of brackets and signs among what is not blank; beyond it is code, or another soup."""
SCALARS = 24
BLOCK = 16
"""Languages looked at together."""

Array = NDArray[np.float32]
_NONE = np.zeros(1)


@dataclass(frozen=True, slots=True)
class Tables:
    """What natural text is like.

    ``lanes``: blocks of uint64, (27 * 27 * 27, BLOCK / 4): -ln P(third letter | first two) in
    STEPs, 16 bits a language; unused lanes never win.
    ``common``: the classes of common English words; ``pairs``: (classes + 1, classes + 1):
    -ln P(class of the next word | class of this) in STEPs; the last class is every other word.
    """

    lanes: tuple[NDArray[np.uint64], ...]
    common: dict[str, int]
    pairs: list[list[int]]


def lanes(surprise: NDArray[np.uint8]) -> tuple[NDArray[np.uint64], ...]:
    """The table of surprises, (trigrams, languages), as blocks of lanes."""
    blocks = []
    for start in range(0, surprise.shape[1], BLOCK):
        part = surprise[:, start : start + BLOCK]
        wide = np.full((part.shape[0], BLOCK), 100, np.uint16)
        wide[:, : part.shape[1]] = part
        blocks.append(wide.view(np.uint64))
    return tuple(blocks)


def features(text: str, tables: Tables, skip: int = -1) -> Array | None:
    """The vector of a window, None where the statistics do not apply: too few letters, not
    nearly all of them Latin, or code.

    ``skip``: a language to leave out (training on text as if its language were not covered).
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").strip("\r")
    if "://" in text:
        text = _URL.sub(" ", text)
        if len(text) < LEFT:
            return None
    codes = points(text)
    size = codes.size
    kind = kinds(codes)
    counts = np.bincount(kind, minlength=CLASSES).tolist()
    latin = counts[LOWER] + counts[UPPER]
    signs = counts[SIGN] + counts[BRACKET]
    if (
        latin < LEAST_LETTERS
        or counts[OTHER] > 0.08 * latin
        or latin < 0.4 * size
        or counts[DIGIT] > MOST_DIGITS * size
        or counts[QUOTE] > MOST_QUOTES * size
        or counts[SPACE] > MOST_BLANKS * size
        or len(_BULLET.findall(text)) >= BULLETS
        or text.count("@") >= ADDRESSES
        or text.count("://") >= ADDRESSES
        or text.count('","') + text.count('":"') >= CELLS
        or text.count('="') >= ATTRIBUTES
        or ("_" in text and len(_UNDERSCORED.findall(text)) * 24 >= counts[LOWER] + counts[UPPER])
        or signs > MOST_SIGNS * (size - counts[SPACE] - counts[NEWLINE])
    ):
        return None
    if counts[NEWLINE] >= RECORDS and _records(text):
        return None
    spoken = _WORD.findall(text.lower())
    n = max(1, len(spoken))
    if n >= 8 and max(map(len, spoken)) <= LONGEST_NAME:
        joints = len(_CAMEL.findall(text)) / n
        shown = signs / (size - counts[SPACE] - counts[NEWLINE])
        if joints >= MOST_NAMES or shown + JOINT * joints > MOST_SIGNS:
            return None
    letters = folded(codes)
    index = trigrams(letters)
    count = index.size
    # A trigram belongs to the word that its middle letter is in or ends.
    starts = (letters[:-1] == 0).nonzero()[0]
    if starts[-1] >= count:
        starts = starts[:-1]
    words = starts.size
    ends = np.empty(words, starts.dtype)
    ends[:-1] = starts[1:]
    ends[-1] = count
    sizes = ends - starts
    # Four languages a lane: a sum over a window stays below 16 bits. Block by block, because the
    # rows of all languages at once are the largest thing that a stream would ever hold.
    best = first = 0
    least = 1 << 30
    fit = np.full(words, 0xFFFF, np.uint16)
    per_word = fit
    for at, block in enumerate(tables.lanes):
        packed = np.add.reduceat(block.take(index, axis=0), starts, axis=0)
        sums = np.add.reduce(packed, 0).view(np.uint16)
        own = packed.view(np.uint16)
        if 0 <= skip - at * BLOCK < BLOCK:
            sums[skip - at * BLOCK] = own[:, skip - at * BLOCK] = 0xFFFF
        if not at:
            first = int(sums[0])
        here = int(sums.argmin())
        if int(sums[here]) < least:
            least = int(sums[here])
            best = at * BLOCK + here
            per_word = own[:, here].copy()
        fit = np.minimum(fit, own.min(axis=1))
    mean = least * STEP / count
    index *= BLOCK
    index += best % BLOCK
    column = tables.lanes[best // BLOCK].view(np.uint16).reshape(-1).take(index)
    gap = mean - int(fit.sum()) * STEP / count
    lengths = sizes - 1
    lengths[-1] = letters.size - 2 - int(starts[-1])
    long = per_word[lengths >= 4] * STEP / sizes[lengths >= 4]
    longs = long.size
    if not longs:
        long = _NONE
    average = float(long.sum()) / long.size
    deviation = math.sqrt(max(0.0, float(long @ long) / long.size - average * average))
    levels = np.bincount(column, minlength=16).tolist()
    pair = kind[:-1].astype(np.int32) * CLASSES + kind[1:]
    form = np.bincount(pair, minlength=CLASSES * CLASSES)
    out = np.empty(SCALARS + CLASSES * CLASSES, np.float32)
    np.sqrt(form / pair.size, out=out[SCALARS:], casting="unsafe")
    known, both, odd, total = _pairs(spoken, tables)
    out[:SCALARS] = (
        mean,
        gap,
        first * STEP / count - mean,
        sum(levels[8:]) / count,
        sum(levels[12:]) / count,
        np.count_nonzero(long > 2.6) / long.size,
        np.count_nonzero(long > 3.2) / long.size,
        np.count_nonzero(long > 4.0) / long.size,
        deviation,
        long.max(),
        math.log1p(int(lengths.max())),
        int(lengths.sum()) / words / 10,
        np.count_nonzero(lengths <= 2) / words,
        longs / words,
        len(set(spoken)) / n,
        known / n,
        both / n,
        odd / n,
        total * STEP / max(1, both) / 4,
        math.log(size) / 6,
        math.log(words + 1) / 5,
        math.log1p(text.count("\n\n\n")),
        counts[DIGIT] / size,
        (counts[SPACE] + counts[NEWLINE]) / size,
    )
    return out


def _records(text: str) -> bool:
    """Whether the lines begin alike, or end alike, most of them: records of some format."""
    lines = [line for line in text.split("\n")[1:] if line.strip()]
    if len(lines) < RECORDS:
        return False
    begins = Counter(line.split(None, 1)[0] for line in lines)
    ends = Counter(line.rsplit(None, 1)[-1] for line in lines)
    most = max(*begins.values(), *ends.values())
    return most >= RECORDS - 1 and most >= 0.5 * len(lines)


def _pairs(spoken: list[str], tables: Tables) -> tuple[int, int, int, int]:
    """Common words, neighbours that are both common, odd ones of these, and their levels' sum."""
    get = tables.common.get
    pairs = tables.pairs
    known = both = odd = total = 0
    before = None
    for word in spoken:
        at = get(word)
        if at is not None:
            known += 1
            if before is not None:
                value = pairs[before][at]
                both += 1
                total += value
                odd += value >= 14
        before = at
    return known, both, odd, total
