"""Reads ``settings.json`` and ``config.toml``; on trouble says everything that is wrong, where, and
what to do about it."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from extproc.gates.settings import FAMILIES, GateSettings, GateTargets, Matrix

Place = tuple[str | int, ...]
Lines = Mapping[Place, int]
"""The line, from 1, on which each key or list item stands."""

_Read = TypeVar("_Read", bound=BaseModel)


class UnusableInput(Exception):
    """A file cannot be used. ``problems`` are lines ready to be shown."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def read_settings(path: Path) -> GateSettings:
    """``settings.json``. Raises UnusableInput."""
    text = read_text(path)
    try:
        content = json.loads(text, object_pairs_hook=_no_doubles, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise UnusableInput(
            [f"{path}:{error.lineno}:{error.colno}: is no JSON: {error.msg}"]
        ) from None
    except (ValueError, RecursionError) as error:
        raise UnusableInput([f"{path}: is no JSON: {error}"]) from None
    return _validated(GateSettings, content, path, json_lines(text))


def read_targets(path: Path) -> GateTargets:
    """``config.toml``. Raises UnusableInput."""
    text = read_text(path)
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        where = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        place = f":{where[1]}:{where[2]}" if where else ""
        what = str(error).partition(" (at ")[0]
        raise UnusableInput([f"{path}{place}: is no TOML: {what}"]) from None
    return _validated(GateTargets, content, path, toml_lines(text))


def read_text(path: Path) -> str:
    """The text of a file. Raises UnusableInput."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UnusableInput([f"{path}: cannot be read: {error.strerror or error}"]) from None
    except UnicodeDecodeError:
        raise UnusableInput([f"{path}: is no UTF-8 text"]) from None


def _validated(model: type[_Read], content: Any, path: Path, lines: Lines) -> _Read:
    if not isinstance(content, dict):
        raise UnusableInput([f"{path}:1: must hold an object with the settings"])
    try:
        return model.model_validate(content)
    except ValidationError as error:
        problems = [
            problem for entry in error.errors() for problem in _problems(entry, model, path, lines)
        ]
        raise UnusableInput(problems) from None


def _problems(entry: Any, model: type[BaseModel], path: Path, lines: Lines) -> Iterator[str]:
    message = str(entry["msg"]).removeprefix("Value error, ")
    for line in message.split("\n"):
        place: Place = tuple(entry["loc"])
        text = line
        if entry["type"] == "value_error" and (found := re.match(r"([a-z_0-9]+): (.*)", line)):
            place, text = (*place, found[1]), found[2]
        if entry["type"] == "extra_forbidden" or text == "no such setting":
            text = f"no such setting{_remedy(model, place)}"
        elif entry["type"] == "missing":
            text = "is missing, and has no default"
        at = lines.get(place) or next(
            (lines[place[:end]] for end in range(len(place), 0, -1) if place[:end] in lines), None
        )
        yield f"{path}{f':{at}' if at else ''}: {_dotted(place)}{': ' if place else ''}{text}"


def _remedy(model: type[BaseModel], place: Place) -> str:
    names = _names(model, place[:-1])
    if not names:
        return "; take it out"
    close = difflib.get_close_matches(str(place[-1]), names, 1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; take it out, or use one of: {', '.join(names)}"


def _names(model: type[BaseModel], place: Place) -> list[str]:
    """The settings that may stand at ``place``."""
    schema = model.model_json_schema()
    node: Any = schema
    for part in place:
        node = _resolved(schema, node)
        properties = node.get("properties", {})
        node = properties.get(part) or node.get("additionalProperties") or {}
        if not isinstance(node, dict):
            return []
    names = list(_resolved(schema, node).get("properties", {}))
    if set(names) >= set(Matrix.model_fields):
        names += [f"{family}..." for family in FAMILIES]
    return names


def _resolved(schema: Any, node: Any) -> Any:
    for option in [node, *node.get("anyOf", ())]:
        if "$ref" in option:
            return schema["$defs"][option["$ref"].rpartition("/")[2]]
    return node


def _dotted(place: Place) -> str:
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{double!r} stands there twice; one of them would be ignored")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


_STRINGS = json.JSONDecoder()


def json_lines(text: str) -> dict[Place, int]:
    """Where everything stands in valid JSON."""
    lines: dict[Place, int] = {}
    line, counted, at = 1, 0, 0
    path: list[str | int] = []
    inside: list[bool] = []  # whether each open bracket is an object
    key_next = False

    def note(position: int) -> None:
        nonlocal line, counted
        line += text.count("\n", counted, position)
        counted = position
        lines.setdefault(tuple(path), line)

    while at < len(text):
        char = text[at]
        if char == '"':
            start = at
            value, at = _STRINGS.raw_decode(text, at)
            if key_next:
                path[-1] = value
                note(start)
                key_next = False
            else:
                note(start)
            continue
        if char in "{[":
            note(at)
            inside.append(char == "{")
            path.append("" if char == "{" else 0)
            key_next = char == "{"
        elif char in "}]":
            inside.pop()
            path.pop()
            key_next = False  # an empty object has none
        elif char == ",":
            if inside[-1]:
                key_next = True
            else:
                path[-1] = int(path[-1]) + 1
        elif char not in " \t\r\n:":
            note(at)
        at += 1
    return lines


_TABLE = re.compile(r"\s*\[+\s*([^\]]+?)\s*\]+\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[^=\s."']+))*)\s*=""")


def toml_lines(text: str) -> dict[Place, int]:
    """Where tables and keys stand in valid TOML; keys of inline tables have their table's line."""
    lines: dict[Place, int] = {}
    table: Place = ()
    for number, line in enumerate(text.splitlines(), 1):
        if found := _TABLE.match(line):
            table = _parts(found[1])
            for end in range(1, len(table) + 1):  # [a.b] makes a, too
                lines.setdefault(table[:end], number)
        elif found := _KEY.match(line):
            lines.setdefault((*table, *_parts(found[1])), number)
    return lines


def _parts(key: str) -> Place:
    return tuple(part.strip().strip("\"'") for part in key.split("."))
