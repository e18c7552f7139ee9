"""YAML for people: in block style, small things on one line, and why a value is what it is.

PyYAML writes every scalar, so quoting is its business; this file only lays out.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

WIDTH = 100
"""Columns of a line of comment, and of a mapping that is written on one line."""

Path = tuple[str, ...]

_DOTS = re.compile(r"\.(?![^\[]*\])")
"""Those outside of brackets."""


class Notes:
    """Comments by where they belong: the end of a path, such as
    ``outlier_detection.max_ejection_percent`` or ``listeners[front]``. Each is told once."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = {tuple(_DOTS.split(place)): text for place, text in texts.items()}
        self._lengths = sorted({len(place) for place in self._texts}, reverse=True)
        self._told: set[Path] = set()

    def _find(self, path: Path) -> Path | None:
        for length in self._lengths:
            if (end := path[-length:]) in self._texts and end not in self._told:
                return end
        return None

    def within(self, path: Path, node: Any) -> bool:
        """Whether something below ``path`` has a comment."""
        if isinstance(node, Mapping):
            return any(
                self._find((*path, key)) is not None or self.within((*path, key), value)
                for key, value in node.items()
            )
        if isinstance(node, list):
            return any(self.within(named(path, entry), entry) for entry in node)
        return False

    def tell(self, path: Path, indent: int) -> Iterator[str]:
        """The lines of the comment on ``path``, if it has one."""
        if (found := self._find(path)) is None:
            return
        self._told.add(found)
        yield from comment(self._texts[found], indent)


def comment(text: str, indent: int = 0) -> Iterator[str]:
    """Lines of a comment. Lines that ``text`` indents stay as they are."""
    start = " " * indent + "# "
    for paragraph in text.split("\n"):
        if not paragraph.strip():
            yield start.rstrip()
        elif paragraph.startswith("  "):
            yield start + paragraph
        else:
            yield from textwrap.wrap(
                paragraph, WIDTH, initial_indent=start, subsequent_indent=start,
                break_long_words=False, break_on_hyphens=False,
            )  # fmt: skip


def named(path: Path, entry: Any) -> Path:
    """The path of a list's entry: one with a name is ``list[name]``."""
    name = entry.get("name") if isinstance(entry, Mapping) else None
    return (*path[:-1], f"{path[-1]}[{name}]") if isinstance(name, str) and path else path


def dump(node: Mapping[str, Any], notes: Notes) -> str:
    """``node`` as a YAML document."""
    return "\n".join(_mapping(node, (), 0, notes)) + "\n"


def _mapping(node: Mapping[str, Any], path: Path, indent: int, notes: Notes) -> Iterator[str]:
    pad = " " * indent
    for key, value in node.items():
        here = (*path, key)
        yield from notes.tell(here, indent)
        start = f"{pad}{_flow(key)}:"
        if (line := _short(start, value, here, notes)) is not None:
            yield line
        elif isinstance(value, Mapping):
            yield start
            yield from _mapping(value, here, indent + 2, notes)
        elif isinstance(value, list):
            yield start
            yield from _sequence(value, here, indent, notes)
        elif _is_text(value):
            yield f"{start} |"
            yield from (f"{pad}  {line}" for line in value.split("\n")[:-1])
        else:
            yield f"{start} {_flow(value)}"


def _sequence(node: Sequence[Any], path: Path, indent: int, notes: Notes) -> Iterator[str]:
    pad = " " * indent
    for entry in node:
        here = named(path, entry)
        yield from notes.tell(here, indent)
        if (line := _short(f"{pad}-", entry, here, notes)) is not None:
            yield line
        elif isinstance(entry, Mapping):
            lines = list(_mapping(entry, here, indent + 2, notes))
            # The dash takes the place of two blanks before the first key.
            first = next(at for at, text in enumerate(lines) if not text.lstrip().startswith("#"))
            yield from (text[2:] for text in lines[:first])
            yield f"{pad}- {lines[first].lstrip()}"
            yield from lines[first + 1 :]
        else:
            yield f"{pad}- {_flow(entry)}"


def _short(start: str, node: Any, path: Path, notes: Notes) -> str | None:
    """``start`` and ``node`` on one line, where that reads well."""
    if _is_text(node):
        return None
    if isinstance(node, Mapping | list) and node and not _small(node):
        return None
    if notes.within(path, node):
        return None
    line = f"{start} {_flow(node)}"
    return line if len(line) <= WIDTH or not isinstance(node, Mapping | list) else None


_TEXT = re.compile(r"[!-~][ -~]*\n([ -~]*[!-~]\n)+")


def _is_text(node: Any) -> bool:
    """Whether ``node`` is lines of plain text, which a block shows as they are."""
    return isinstance(node, str) and _TEXT.fullmatch(node) is not None


def _small(node: Any, depth: int = 0) -> bool:
    """Few values, not deep, and no type of an extension, which deserves its own line."""
    if isinstance(node, Mapping):
        if "@type" in node or len(node) > 4 or depth > 3:
            return False
        return all(_small(value, depth + 1) for value in node.values())
    if isinstance(node, list):
        return len(node) <= 3 and all(_small(value, depth + 1) for value in node)
    return True


class _Dumper(yaml.SafeDumper):
    """Keeps every string on one line."""


_BREAKS = re.compile("[\n\r\x85\u2028\u2029]")


def _string(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = '"' if _BREAKS.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _string)


def _flow(node: Any) -> str:
    text: str = yaml.dump(
        node, Dumper=_Dumper, default_flow_style=True, sort_keys=False, width=1 << 30,
        allow_unicode=True,
    )  # fmt: skip
    return text.removesuffix("\n").removesuffix("\n...")
