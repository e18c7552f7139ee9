"""Where a finding stands: the file, and the line in it.

A path such as ``static_resources.clusters[2].name`` is exact and hard to find in 400 lines of YAML.
Files are read a second time for it, with their marks, and only when something was found.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from extproc.mesh.audit.source import LOADER

_PART = re.compile(r'\["([^"]*)"\]|\[(\d+)\]|([^.\[\]]+)')
_DOCUMENT = re.compile(r"document\[(\d+)\]\.?")

MOST = 4 << 20
"""Characters of a file in which lines are looked for: a dump is larger, and on one line."""

SETTINGS = "extproc.yaml: "
"""How the path of a setting of the sidecar's begins."""


def written(place: tuple[str, int | None] | None) -> str:
    """As compilers begin a line, so that terminals and editors lead there."""
    if place is None:
        return ""
    file, line = place
    return f"{file}:{line}: " if line else f"{file}: "


class Places:
    """The files of an audit, in their order."""

    def __init__(self, settings: tuple[str, str] | None = None) -> None:
        """``settings``: name and text of the sidecar's own file."""
        self._settings = settings
        self._files: list[tuple[str, str, int]] = []
        self._trees: dict[str, list[Node]] = {}

    def add(self, name: str, text: str, documents: int) -> None:
        """A file, and how many documents were taken from it."""
        self._files.append((name, text, documents))

    def of(self, path: str) -> tuple[str, int | None] | None:
        """File and line of a path; None where it is in no file, as a counter is."""
        if path.startswith(SETTINGS):
            if self._settings is None:
                return None
            name, text = self._settings
            return name, self._line(name, text, 0, path.removeprefix(SETTINGS))
        if not path or path.startswith("stats: "):
            return None
        number, path = _document(path)
        for name, text, documents in self._files:
            if number < documents:
                return name, self._line(name, text, number, path)
            number -= documents
        return None

    def named(self, note: str) -> str:
        """A note that begins with a path, with its file."""
        return written(self.of(note.partition(": ")[0])) + note

    def _line(self, name: str, text: str, number: int, path: str) -> int | None:
        trees = self._trees.get(name)
        if trees is None:
            trees = self._trees[name] = _composed(text)
        if number >= len(trees):
            return None
        return _find(trees[number], _PART.findall(path))


def _document(path: str) -> tuple[int, str]:
    match = _DOCUMENT.match(path)
    return (int(match[1]), path[match.end() :]) if match else (0, path)


def _composed(text: str) -> list[Node]:
    """The documents of a text with their marks, empty ones left out."""
    if len(text) > MOST:
        return []
    try:
        found = list(yaml.compose_all(text, Loader=LOADER))
    except (yaml.YAMLError, ValueError, RecursionError):
        return []  # JSON that is no YAML, such as one that is indented by tabs
    return [node for node in found if node is not None and not _is_nothing(node)]


def _is_nothing(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _find(node: Node, parts: Sequence[tuple[str, str, str]]) -> int | None:
    """The line of the deepest part of a path that is there, counted from 1."""
    line: int = node.start_mark.line
    for at, (quoted, index, word) in enumerate(parts):
        if isinstance(node, MappingNode):
            entry = _entry(node, word or quoted or index)
            if entry is None:
                break
            line, node = entry[0].start_mark.line, entry[1]
        elif isinstance(node, SequenceNode) and index and int(index) < len(node.value):
            node = node.value[int(index)]
            line = node.start_mark.line
        else:
            inner = _inside(node, parts[at:])
            return line + 1 + inner if inner else line + 1
    return line + 1


def _entry(node: MappingNode, key: str) -> tuple[Node, Node] | None:
    """A key with its value, also one that ``<<`` brings."""
    for name, value in node.value:
        if name.value == key:
            return name, value
    for name, value in node.value:
        if name.value == "<<":
            for merged in value.value if isinstance(value, SequenceNode) else [value]:
                if isinstance(merged, MappingNode) and (found := _entry(merged, key)):
                    return found
    return None


def _inside(node: Node, parts: Sequence[tuple[str, str, str]]) -> int | None:
    """The line within a block of text that is a document itself, as a ConfigMap has it."""
    if not isinstance(node, ScalarNode) or node.style != "|":
        return None
    trees = _composed(node.value)
    return _find(trees[0], parts) if trees else None
