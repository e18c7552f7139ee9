"""Reads a configuration file; on trouble says everything that is wrong, and where."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_settings import SettingsError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from extproc.config.model import Settings
from extproc.config.names import meant, misnamed, variable

MOST = 1_000_000
"""Values of a file, each alias counted as all that it stands for."""


class ConfigError(Exception):
    """The configuration cannot be used. ``problems`` are lines ready to be shown."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def load(path: Path | None) -> Settings:
    """Settings of a YAML file, or all defaults, under the environment. Raises ConfigError."""
    if path is None:
        return _validated({}, None, "environment")
    return parse(read(path), str(path))


def read(path: Path) -> str:
    """The text of a configuration file. Raises ConfigError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is no UTF-8 text"
        raise ConfigError([f"{path}: {reason}"]) from None


def parse(text: str, name: str) -> Settings:
    """Settings of YAML text; ``name`` stands in messages. Raises ConfigError."""
    try:
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        if _size(tree, {}) > MOST:
            raise ConfigError([f"{name}: its aliases stand for more than {MOST:,} values"])
        content = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise ConfigError([f"{place}: {explained(error)}"]) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError([f"{name}: {error}"]) from None
    if content is None:
        content = {}
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise ConfigError([f"{name}:1: the file must be a mapping of setting names"])
    doubled = [
        f"{name}:{line}: {key!r} stands here twice; one of them would be ignored"
        for key, line in _doubled(tree)
    ]
    if doubled:
        raise ConfigError(doubled)
    return _validated(content, tree, name)


_HINTS = {
    "cannot start any token": "YAML is indented by spaces, not by tabs",
    "expected <block end>": "is the line indented as those that it belongs to?",
    "mapping values are not allowed": "is the line indented as those that it belongs to? A value "
    "with a colon in it wants quotes",
    "could not find expected ':'": "a name wants a colon and a space after it",
}


def explained(error: yaml.MarkedYAMLError) -> str:
    """What a YAML parser says, and what people did that makes it say so."""
    problem = str(error.problem)
    hint = next((hint for part, hint in _HINTS.items() if part in problem), "")
    return f"{problem} ({hint})" if hint else problem


def place(path: Path, setting: str) -> str:
    """ "file:line" of ``setting``, written as in messages: ``units[1].hosts``."""
    tree = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    return f"{path}{_line(tree, _undotted(setting))}"


def _validated(content: dict[str, Any], tree: Node | None, name: str) -> Settings:
    if wrong := [f"environment: {problem}" for problem in misnamed()]:
        raise ConfigError(wrong)
    try:
        return Settings(**content)
    except ValidationError as error:
        found = [problem for entry in error.errors() for problem in _problems(entry, tree, name)]
        found.sort(key=lambda problem: problem[0])
        raise ConfigError([text for _, text in found]) from None
    except SettingsError as error:  # a group of settings in the environment must be JSON
        raise ConfigError([f"environment: {error}"]) from None


def _problems(entry: Any, tree: Node | None, name: str) -> Iterator[tuple[int, str]]:
    """Each problem, after the number of its line; what is in no line comes first."""
    location = tuple(entry["loc"])
    message = str(entry["msg"]).removeprefix("Value error, ")
    if entry["type"] == "extra_forbidden":
        message = "no such setting" + meant(location)
    if location:
        at = _at(tree, location)
        where = variable(location) or f"{name}{_shown(at)}"
        yield at or 0, f"{where}: {_dotted(location)}: {message}"
        return
    for line in message.split("\n"):  # checks over the whole file name their places themselves
        at = _at(tree, _undotted(line.partition(": ")[0]))
        yield at or 0, f"{name}{_shown(at)}: {line}"


def _dotted(location: tuple[str | int, ...]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _undotted(text: str) -> tuple[str | int, ...]:
    return tuple(
        int(number) if number else word
        for word, number in re.findall(r"([^.\[\]]+)|\[(\d+)\]", text)
    )


def _line(tree: Node | None, location: tuple[str | int, ...]) -> str:
    """ ":N" of the deepest part of ``location`` that stands in the file."""
    return _shown(_at(tree, location))


def _shown(line: int | None) -> str:
    return f":{line}" if line is not None else ""


def _at(tree: Node | None, location: tuple[str | int, ...]) -> int | None:
    """The line of the deepest part of ``location`` that stands in the file."""
    node, line = tree, None
    for part in location:
        if isinstance(node, MappingNode):
            found = next(((k, v) for k, v in node.value if k.value == str(part)), None)
            if found is None:
                break
            line, node = found[0].start_mark.line, found[1]
        elif isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line
        else:
            break
    return line + 1 if line is not None else None


def _size(node: Node | None, sizes: dict[Node, int]) -> int:
    """How many values a node is, written out. Raises ValueError for one that is part of itself."""
    if node in sizes:
        if not sizes[node]:
            raise ValueError(f"line {node.start_mark.line + 1}: a value is part of itself")
        return sizes[node]
    if not isinstance(node, (MappingNode, SequenceNode)):
        return 1
    sizes[node] = 0  # not known yet
    parts = node.value
    if isinstance(node, MappingNode):
        parts = [part for pair in node.value for part in pair]
    sizes[node] = 1 + sum(_size(part, sizes) for part in parts)
    return sizes[node]


def _doubled(node: Node | None) -> Iterator[tuple[str, int]]:
    if isinstance(node, MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if isinstance(key, ScalarNode):
                if key.value in seen:
                    yield key.value, key.start_mark.line + 1
                seen.add(key.value)
            yield from _doubled(value)
    elif isinstance(node, SequenceNode):
        for child in node.value:
            yield from _doubled(child)
