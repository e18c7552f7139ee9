"""Builds extproc/detect/salad/salad.bin.xz: what natural text is like, and how salad differs.

    python -m bench.salad_build [--keep-tables] VOCABULARY.json [ROOT...]

Needs a machine stocked with documentation in many languages: message catalogues and man pages
give the letter statistics of each language, everything that bench.natural finds gives the natural
windows. VOCABULARY.json is a list of a tokenizer's tokens in the order of their ids (o200k_base,
say); salad is drawn from it, and beside it stand the real outputs of bench/salads.jsonl.gz: a
135M-parameter model (SmolLM2) with one weight matrix or norm scaled 12 to 120 times, every prompt
answered in a form that a reader called salad. answers.jsonl.gz holds answers of the same model
undamaged, which are natural windows too: a model's prose is not a manual's.

``--keep-tables`` trains the network alone, on the languages that the present file has.

Files are split by folder, as in bench.natural.held_back: what is held back there is seen neither
by the tables nor by the training, so that bench/accuracy.py measures on text that is new.
"""

from __future__ import annotations

import gzip
import json
import lzma
import math
import random
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import natural
from extproc.detect.salad.features import SCALARS, STEP, Tables, features, lanes
from extproc.detect.salad.letters import CLASSES, A, folded, points, trigrams
from extproc.detect.salad.model import unpack

OUT = Path(__file__).parents[1] / "extproc/detect/salad/salad.bin.xz"
SALADS = Path(__file__).with_name("salads.jsonl.gz")
ANSWERS = Path(__file__).with_name("answers.jsonl.gz")

LANGUAGES = (
    "en de fr pl tr es pt ro it nl ca id gl hu hr sl sv cs fi lt da vi nb lv sk eo eu et ga crh oc "
    "is ms sq fur cy sc nn af az be ia wa xh lg br nso tl rw an gd tk li ku tt sb wo io sw nds mi "
    "fo"
).split()
ALIASES = {
    "en_GB": "en", "en_CA": "en", "en_AU": "en", "pt_BR": "pt", "pt_PT": "pt", "ca@valencia": "ca",
    "sr@latin": "hr", "sr_Latn": "hr", "bs": "hr", "be@latin": "be", "fil": "tl", "kmr": "ku",
    "es_AR": "es", "es_CO": "es", "es_MX": "es", "es_VE": "es", "tt@iqtelif": "tt", "nb_NO": "nb",
    "hsb": "sb", "dsb": "sb",
}  # fmt: skip
MOST = 1_500_000
"""Characters of a language that are enough."""

WINDOW = 384
HIDDEN = 32
DECAY = 3e-6
"""L2 penalty a weight and example."""

_LANGUAGE = re.compile(
    r"/(?:locale|man|help|translations)/([a-z]{2,3}(?:_[A-Z]{2})?(?:@\w+)?)/|\.([a-z]{2,3})\.utf8$"
)
_NOISE = re.compile(r"<[^>]*>|https?:\S+|%\d?\$?[sdifu]|&\w+;|\\[a-z]+")
_WORD = re.compile(r"[A-Za-z]+(?:'[a-z]+)?")
_PIECE = re.compile(r" ?[A-Za-z]{1,5}| ?\d{1,3}| ?[^\sA-Za-z\d]+|\s+")

Array = NDArray[np.float32]


def language_of(path: str) -> str | None:
    """The language that a path names; English for plain man pages and English documentation."""
    if match := _LANGUAGE.search(path):
        name = match.group(1) or match.group(2)
        name = ALIASES.get(name, name)
        return name if name in LANGUAGES else None
    if re.search(r"/man/man\d/|/doc/.*\.(md|rst|txt)(\.gz)?$", path):
        return "en"
    return "en" if natural.kind_of(path) == "prose" and "/fortunes/" not in path else None


def texts(found: dict[str, list[str]], rng: random.Random) -> dict[str, str]:
    """Running text of each language, lines of prose alone."""
    paths: dict[str, list[str]] = {language: [] for language in LANGUAGES}
    for group in found.values():
        for path in group:
            if (language := language_of(path)) is not None:
                paths[language].append(path)
    out = {}
    for language, group in paths.items():
        rng.shuffle(group)
        prose = [path for path in group if natural.kind_of(path) == "prose"]
        other = [path for path in group if natural.kind_of(path) != "prose"]
        group = [path for pair in zip_longest(prose, other) for path in pair if path]
        kept: list[str] = []
        size = 0
        for path in group:
            text = _NOISE.sub(" ", natural.rendered(path, natural.read(path))[:120_000])
            for line in text.split("\n"):
                if len(line) > 3 and sum(map(str.isalpha, line)) > 0.6 * len(line):
                    kept.append(line)
                    size += len(line)
            if size > MOST:
                break
        out[language] = "\n".join(kept)
    return out


def surprise(text: str) -> NDArray[np.uint8]:
    """-ln P(third letter | first two) in STEPs, backing off to pairs and single letters."""
    index = trigrams(folded(points(text)))
    threes = np.bincount(index, minlength=A**3).astype(float).reshape(A, A, A)
    twos = threes.sum(0)
    ones = twos.sum(0)
    p1 = (ones + 1) / (ones + 1).sum()
    p2 = (twos + 8 * p1) / (twos.sum(1, keepdims=True) + 8)
    p3 = (threes + 6 * p2) / (threes.sum(2, keepdims=True) + 6)
    levels: NDArray[np.uint8] = np.clip(np.round(-np.log(p3) / STEP), 0, 15).astype(np.uint8)
    return levels.reshape(-1)


def pairs(text: str) -> tuple[list[str], NDArray[np.uint8]]:
    """Common English words, and the surprises of their neighbourhoods."""
    lines = [_WORD.findall(line.lower()) for line in text.split("\n")]
    counts = Counter(word for line in lines for word in line)
    common = [w for w, _ in counts.most_common(400) if len(w) > 1 or w in ("a", "i")][:200]
    classes = {word: i for i, word in enumerate(common)}
    size = len(common) + 1
    table = np.zeros((size, size))
    for line in lines:
        ids = [classes.get(word, size - 1) for word in line]
        np.add.at(table, (ids[:-1], ids[1:]), 1)
    p1 = (table.sum(0) + 1) / (table.sum() + size)
    p2 = (table + 5 * p1) / (table.sum(1, keepdims=True) + 5)
    return common, np.clip(np.round(-np.log(p2) / STEP), 0, 255).astype(np.uint8)


def windows(text: str, count: int, rng: random.Random, least: int = 90) -> Iterator[str]:
    """Windows as the detector sees them, most of them full."""
    for _ in range(count):
        size = WINDOW if rng.random() < 0.6 else rng.randint(least, WINDOW)
        start = rng.randrange(max(1, len(text) - size + 1))
        yield text[start : start + size]


def look_alikes(lines: list[str], count: int, rng: random.Random) -> Iterator[str]:
    """Healthy text that looks odd: ciphers, encodings, lists of words, capitals, reversed."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    for _ in range(count):
        text = " ".join(rng.choice(lines) for _ in range(3))
        kind = rng.randrange(9)
        if kind < 2:
            import base64

            text = base64.b64encode(rng.randbytes(400) if kind else text.encode()).decode()
        elif kind == 2:
            turn = rng.randint(1, 25)
            turned = letters[turn:] + letters[:turn]
            table = str.maketrans(letters + letters.upper(), turned + turned.upper())
            text = text.translate(table)
        elif kind == 3:
            text = "".join(rng.choice(letters + "   ") for _ in range(500))
        elif kind == 4:
            words = _WORD.findall(text)
            rng.shuffle(words)
            text = rng.choice([", ", "\n", "\n- ", "; ", '","', " | ", " / "]).join(words)
        elif kind == 5:
            text = rng.choice(["\n", ", ", " | "]).join(sorted(set(_WORD.findall(text.lower()))))
        elif kind == 6:
            text = text.upper()
        elif kind == 7:
            text = re.sub("[aeiou]", "", text)
        else:
            text = "".join(w.title() + rng.choice(["", "_", "."]) for w in _WORD.findall(text))
        yield from windows(text, 1, rng, 120)


def salads(
    vocabulary: list[str], english: str, lines: list[str], count: int, rng: random.Random
) -> Iterator[str]:
    """Synthetic salad: tokens drawn evenly or by rank, whole words, subwords, damaged prose."""
    plain = [t for t in vocabulary if t.isascii() and t.isprintable()]
    latin = [t for t in vocabulary if all(c < "\u0250" for c in t)]
    spaced = [t for t in plain if re.fullmatch(r" [A-Za-z]{3,}", t)]
    lower = [t for t in spaced if t.islower()]
    subwords = [t for t in plain if re.fullmatch(r"[A-Za-z]{2,8}", t)]
    counts = Counter(_WORD.findall(english))
    words = [" " + w for w, _ in counts.most_common(20_000) if len(w) > 3]

    def by_rank(items: list[str]) -> str:
        return items[min(len(items) - 1, int(math.exp(rng.random() * math.log(len(items)))))]

    def mixed(share: float) -> str:
        return by_rank(plain[:20_000]) if rng.random() < share else rng.choice(plain)

    def damaged() -> str:
        share = rng.uniform(0.35, 0.9)
        pieces = _PIECE.findall(rng.choice(lines)[:600])
        pieces = [mixed(0.6) if rng.random() < share else piece for piece in pieces]
        if rng.random() < 0.3:
            rng.shuffle(pieces)
        return "".join(pieces)

    def of(draw: Callable[[], str]) -> str:
        return "".join(draw() for _ in range(rng.randint(25, 110)))

    makers: list[tuple[int, Callable[[], str]]] = [
        (15, lambda: of(lambda: rng.choice(plain))),
        (18, lambda: of(lambda: by_rank(plain))),
        (8, lambda: of(lambda: rng.choice(latin))),
        (10, lambda: of(lambda: rng.choice(spaced))),
        (10, lambda: of(lambda: by_rank(spaced))),
        (8, lambda: of(lambda: rng.choice(lower))),
        (12, lambda: of(lambda: rng.choice(subwords))),
        (10, lambda: of(lambda: rng.choice(subwords if rng.random() < 0.5 else spaced))),
        (6, lambda: of(lambda: rng.choice(words))),
        (18, lambda: of(lambda: mixed(0.45))),
        (15, lambda: of(lambda: "\n" * rng.randint(1, 8) if rng.random() < 0.12 else mixed(0.7))),
        (24, damaged),
    ]
    for _, make in rng.choices(makers, [weight for weight, _ in makers], k=count):
        yield make()[-WINDOW:]


def recorded(path: Path, packs: float = 1.9) -> Iterator[str]:
    """Texts of a recording that are mostly letters and no loop: zlib packs them less."""
    with gzip.open(path, "rt") as file:
        for line in file:
            text = json.loads(line)["text"]
            raw = text.encode()
            if len(text) < 90 or len(raw) > packs * len(zlib.compress(raw)):
                continue
            if sum(map(str.isalpha, text)) > 0.35 * len(text):
                yield text


def train(x: Array, y: Array, seed: int = 0, epochs: int = 30) -> dict[str, Any]:
    """A network of one hidden layer by Adam on the logistic loss."""
    rng = np.random.default_rng(seed)
    mean, scale = x.mean(0), np.maximum(x.std(0), 1e-3)
    x = np.clip((x - mean) / scale, -5, 5)
    sizes = (x.shape[1], HIDDEN)
    w = [
        rng.normal(0, math.sqrt(2 / sizes[0]), sizes).astype(np.float32),
        np.zeros(HIDDEN, np.float32),
        rng.normal(0, math.sqrt(2 / HIDDEN), HIDDEN).astype(np.float32),
        np.zeros(1, np.float32),
    ]
    m, v = [np.zeros_like(p) for p in w], [np.zeros_like(p) for p in w]
    step = 0
    for epoch in range(epochs):
        rate = 1e-3 * (1 if epoch < 0.7 * epochs else 0.3)
        for batch in np.array_split(rng.permutation(len(x)), max(1, len(x) // 200)):
            xb, yb = x[batch], y[batch]
            hidden = np.maximum(xb @ w[0] + w[1], 0)
            odds = hidden @ w[2] + w[3]
            error = (1 / (1 + np.exp(-odds)) - yb) / len(batch)
            back = np.outer(error, w[2]) * (hidden > 0)
            decay = DECAY * len(x) / 200
            grads = [
                xb.T @ back + decay * w[0] / 100,
                back.sum(0),
                hidden.T @ error + decay * w[2] / 100,
                error.sum(keepdims=True),
            ]
            step += 1
            for p, g, mm, vv in zip(w, grads, m, v, strict=True):
                mm += 0.1 * (g - mm)
                vv += 0.001 * (g * g - vv)
                p -= rate * (mm / (1 - 0.9**step)) / (np.sqrt(vv / (1 - 0.999**step)) + 1e-8)
    names = ("hidden", "hidden_bias", "out")
    out: dict[str, Any] = dict(zip(names, w, strict=False))
    return {**out, "out_bias": float(w[3][0]), "mean": mean, "scale": scale}


def both(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """One network that gives the mean of two on the same inputs."""
    return {
        **one,
        "hidden": np.hstack((one["hidden"], other["hidden"])),
        "hidden_bias": np.hstack((one["hidden_bias"], other["hidden_bias"])),
        "out": np.hstack((one["out"], other["out"])) / 2,
        "out_bias": (one["out_bias"] + other["out_bias"]) / 2,
    }


def pack(
    table: NDArray[np.uint8], names: list[str], common: list[str], arrays: dict[str, Any]
) -> bytes:
    """The data file, as extproc.detect.salad.model.unpack reads it."""
    if table.shape[1] % 2:
        table = np.hstack((table, table[:, :1]))
    nibbles = np.ascontiguousarray((table[:, ::2] | (table[:, 1::2] << 4)).T)
    stored = {"surprise": nibbles}
    stored |= {k: v if v.dtype == np.uint8 else v.astype("<f4") for k, v in arrays.items()
               if k != "out_bias"}  # fmt: skip
    header = {
        "languages": names,
        "common": common,
        "out_bias": arrays["out_bias"],
        "arrays": [(name, value.dtype.str, value.shape) for name, value in stored.items()],
    }
    raw = json.dumps(header).encode() + b"\n" + b"".join(v.tobytes() for v in stored.values())
    return lzma.compress(raw, preset=9 | lzma.PRESET_EXTREME)


def present() -> tuple[list[str], NDArray[np.uint8], list[str], NDArray[np.uint8]]:
    """Languages, their table, common words and their neighbours of the present file."""
    raw = lzma.decompress(OUT.read_bytes())
    header = json.loads(raw[: raw.index(b"\n")])
    tables = unpack(OUT.read_bytes()).tables
    wide = np.hstack([block.view(np.uint16) for block in tables.lanes])
    names = header["languages"]
    table = wide[:, : len(names)].astype(np.uint8)
    return names, table, header["common"], np.array(tables.pairs, np.uint8)


def main() -> None:
    keep = "--keep-tables" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--keep-tables"]
    vocabulary = [token for token in json.loads(Path(arguments[0]).read_text()) if token]
    roots = [*natural.ROOTS, *map(Path, arguments[1:])]
    rng = random.Random(1)
    found = natural.files(roots)
    found = {
        kind: [path for path in paths if not natural.held_back(path)]
        for kind, paths in found.items()
    }
    text = texts(found, rng)
    if keep:
        names, table, common, neighbours = present()
    else:
        names = [name for name in LANGUAGES if len(text[name]) >= 12_000]
        table = np.stack([surprise(text[name]) for name in names], axis=1)
        common, neighbours = pairs(text["en"])
    print(f"{len(names)} languages")
    tables = Tables(lanes(table), {w: i for i, w in enumerate(common)}, neighbours.tolist())

    vectors: list[Array] = []
    labels: list[int] = []

    def add(window: str, label: int, skip: int = -1, times: int = 1) -> None:
        if (vector := features(window, tables, skip)) is not None:
            vectors.extend([vector] * times)
            labels.extend([label] * times)

    def hide(name: str | None) -> int:
        # A language must look natural also to a table that lacks it.
        return names.index(name) if name in names[1:] and rng.random() < 0.55 else -1

    for passage in natural.passages(26_000, 11, found=found):
        skip = hide(language_of(passage.source))
        for window in windows(passage.text, 3, rng):
            add(window, 0, skip)
    for passage in natural.passages(6_000, 12, found={"prose": found["prose"]}):
        skip = hide(language_of(passage.source))
        for window in windows(passage.text, 3, rng):
            add(window, 0, skip)
    for answer in recorded(ANSWERS, 2.6):
        for window in windows(answer, max(2, len(answer) // 150), rng):
            add(window, 0)
    for name in names:
        for window in windows(text[name], 270 if len(text[name]) > 12_000 else 0, rng, 200):
            add(window, 0, hide(name))
    lines = [line for line in text["en"].split("\n") if len(line) > 120]
    for window in look_alikes(lines, 4_000, rng):
        add(window, 0)
    print(f"{len(labels)} natural windows")
    before = len(labels)
    for window in salads(vocabulary, text["en"], lines, 15_500, rng):
        add(window, 1)
    for salad in recorded(SALADS):
        for window in sorted({salad[-WINDOW:], salad[:WINDOW], salad[:200]}):
            add(window, 1, times=7)
    print(f"{len(labels) - before} windows of salad")
    x, y = np.array(vectors, np.float32), np.array(labels, np.float32)
    assert x.shape[1] == SCALARS + CLASSES * CLASSES
    trained = both(train(x, y, 0), train(x, y, 1))
    data = pack(table, names, common, {"pairs": neighbours, **trained})
    OUT.write_bytes(data)
    print(f"{OUT.name}: {len(data)} bytes")


if __name__ == "__main__":
    main()
