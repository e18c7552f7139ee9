"""Natural text found on a machine: the sample on which no detector may alarm.

Documentation, man pages, sources, data files and message catalogues in whatever languages are
installed. A passage is a run of whole lines from one file; which one is drawn by a seed, so that
another seed draws a fresh sample from the same files.
"""

from __future__ import annotations

import contextlib
import gettext
import gzip
import hashlib
import html
import os
import random
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOTS = tuple(
    Path(root)
    for root in (
        "/usr/share/doc",
        "/usr/share/man",
        "/usr/share/locale",
        "/usr/share/games",
        "/usr/share/dict",
        "/usr/share/perl",
        "/usr/share/info",
        "/usr/share/javascript",
        "/usr/lib/python3",
        "/usr/lib/node_modules",
        "/usr/include",
        "/etc",
        sys.prefix,
        sys.base_prefix,
    )
)

KINDS = {
    "prose": re.compile(
        r"/(games|stellarium|anarchism|dictd|fortunes|crawl|miscfiles|bible-kjv|debian-history"
        r"|developers-reference|gutenberg)/.*\.(mo|txt|html|utf8|dz)$|/fortunes/[^.]*$"
    ),
    "man": re.compile(r"/man/.*\.[1-9][a-z0-9]*$"),
    "catalogue": re.compile(r"\.(mo|po)$"),
    "code": re.compile(
        r"\.(py|pyi|js|mjs|ts|c|h|cc|cpp|hpp|go|rs|java|pl|pm|rb|sh|lua|tcl|el|scm|sql|css|m|R|r|f90|asm|S|vim|hs|ml|php)$"
    ),
    "markup": re.compile(r"\.(md|markdown|rst|adoc|tex|html|htm|xhtml|xml|svg|texi|ly)$"),
    "data": re.compile(
        r"\.(csv|tsv|json|jsonl|yaml|yml|toml|ini|cfg|conf|dat|tab|ipynb|geojson|properties)$"
    ),
    "text": re.compile(r"(\.(txt|text|log|diff|patch|dic|aff|info(-\d+)?)|/[A-Za-z0-9_\-+]+)$"),
}
LARGEST = 6_000_000


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of natural text. ``source`` is the file it is from."""

    kind: str
    source: str
    text: str


def kind_of(path: str) -> str | None:
    """The kind of a file by its name, or None for one that holds no text."""
    name = path.removesuffix(".gz")
    return next((kind for kind, pattern in KINDS.items() if pattern.search(name)), None)


def files(roots: Iterable[Path]) -> dict[str, list[str]]:
    """Paths of text files below ``roots``, by kind, sorted."""
    found: dict[str, set[str]] = defaultdict(set)
    for root in roots:
        for folder, _, names in os.walk(root):
            for name in names:
                path = f"{folder}/{name}"
                if (kind := kind_of(path)) is not None and os.path.isfile(path):
                    found[kind].add(path)
    return {kind: sorted(paths) for kind, paths in found.items()}


def read(path: str) -> str:
    """The text of a file, "" when it holds none. Catalogues become their translated messages."""
    try:
        if path.endswith(".mo"):
            with open(path, "rb") as file:
                catalogue = gettext.GNUTranslations(file)
            messages = [m for m in catalogue._catalog.values() if m]  # type: ignore[attr-defined]
            return "\n".join(messages[1:])
        if os.path.getsize(path) > LARGEST:
            return ""
        raw = Path(path).read_bytes()
        if path.endswith((".gz", ".dz")):
            raw = gzip.decompress(raw)
        if b"\0" in raw[:4096]:
            return ""
        return raw.decode()
    except (
        OSError,
        ValueError,
        EOFError,
        LookupError,
        AttributeError,
        AssertionError,
        SyntaxError,
    ):
        return ""


_ROFF_LINE = re.compile(r"^['.]\s*\\\".*$|^\.(?:TH|SH|SS|B|I|BR|IR|RB|RI|IB|BI|SM|IP|TP)\b ?", re.M)
_ROFF_MACRO = re.compile(r"^[.'].*\n?", re.M)
_ROFF_ESCAPE = re.compile(r"\\f.|\\f\[.*?\]|\\&|\\/|\\,|\\s[-+]?\d|\\:|\\%")
_TAG = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.S | re.I)


def rendered(path: str, text: str) -> str:
    """Text as a reader sees it: without roff requests or tags."""
    if kind_of(path) == "man":
        text = _ROFF_MACRO.sub("", _ROFF_LINE.sub("", text))
        text = _ROFF_ESCAPE.sub("", text).replace(r"\-", "-").replace(r"\(aq", "'")
        return re.sub(r"\n\s*\n\s*\n+", "\n\n", text)
    if re.search(r"\.(x?html?|page|docbook|utf8)(\.gz)?$", path):
        return re.sub(r"\n\s*\n\s*\n+", "\n\n", html.unescape(_TAG.sub(" ", text)))
    return text


def passages(
    count: int,
    seed: int,
    roots: Iterable[Path] = ROOTS,
    shortest: int = 200,
    longest: int = 6000,
    found: dict[str, list[str]] | None = None,
) -> Iterator[Passage]:
    """``count`` passages, spread evenly over the kinds and over the folders of each kind."""
    rng = random.Random(seed)
    found = files(roots) if found is None else found
    folders: dict[str, list[list[str]]] = {}
    for kind, paths in found.items():
        groups: dict[str, list[str]] = defaultdict(list)
        for path in paths:
            groups[_group(path)].append(path)
        folders[kind] = [groups[name] for name in sorted(groups)]
    kinds = sorted(folders)
    drawn, tries, seen = 0, 0, set()
    while kinds and drawn < count and tries < 20 * count:
        tries += 1
        kind = kinds[tries % len(kinds)]
        path = rng.choice(rng.choice(folders[kind]))
        text = read(path)
        if rng.random() < 0.6:
            text = rendered(path, text)
        size = int(shortest * (longest / shortest) ** rng.random())
        passage = _cut(text, size, rng)
        if len(passage) < shortest:
            continue
        digest = hashlib.blake2b(passage.encode("utf-8", "replace"), digest_size=8).digest()
        if digest not in seen:
            seen.add(digest)
            drawn += 1
            yield Passage(kind, path, passage)


def held_back(path: str) -> bool:
    """Whether a file is in the two fifths of the folders that nothing is trained on."""
    folder = "/".join(path.split("/")[:9])
    return int(hashlib.sha256(folder.encode()).hexdigest(), 16) % 10 >= 6


def _group(path: str) -> str:
    # Big packages must not drown small ones: five path components tell packages apart.
    return "/".join(path.split("/")[:7])


def _cut(text: str, size: int, rng: random.Random) -> str:
    start = rng.randrange(max(1, len(text) - size // 2))
    if start:
        with contextlib.suppress(ValueError):
            start = text.index("\n", start, start + 2000) + 1
    return text[start : start + size].strip("\n")
