"""Golden prompts of one's own, by the file's ending.

- ``.yaml``, ``.yml``, ``.json``: a list of objects; ``.jsonl``: one object a line. Their fields are
  those of ``extproc.probes.kinds.Golden``: ``prompt``, ``expected``, ``match``, ``max_tokens``.
- anything else is text: ``prompt => expected``, one a line; ``#`` begins a comment line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from extproc.gates.reading import UnusableInput, read_text
from extproc.probes.kinds import Golden, load_golden

ARROW = "=>"


def read_prompts(path: Path) -> tuple[Golden, ...]:
    """The prompts of a file. Raises UnusableInput."""
    ending = path.suffix.lower()
    if ending in (".yaml", ".yml", ".json"):
        try:
            return load_golden(path)
        except ValueError as error:
            raise UnusableInput([str(error)]) from None
    text = read_text(path)
    entries = _jsonl(text) if ending in (".jsonl", ".ndjson") else _text(text)
    found: list[Golden] = []
    problems: list[str] = []
    for number, content in entries:
        if isinstance(content, str):
            problems.append(f"{path}:{number}: {content}")
            continue
        try:
            found.append(Golden.model_validate(content))
        except ValidationError as error:
            for entry in error.errors():
                field = ".".join(str(part) for part in entry["loc"])
                message = str(entry["msg"]).removeprefix("Value error, ")
                if entry["type"] == "extra_forbidden":
                    message = f"no such field; known: {', '.join(Golden.model_fields)}"
                problems.append(f"{path}:{number}: {field}{': ' if field else ''}{message}")
    if not found and not problems:
        problems.append(f"{path}: holds no prompts")
    if problems:
        raise UnusableInput(problems)
    return tuple(found)


def _jsonl(text: str) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                content = json.loads(line)
            except (ValueError, RecursionError) as error:
                yield number, f"is no JSON: {error}"
                continue
            yield number, content if isinstance(content, dict) else "must be an object"


def _text(text: str) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        prompt, arrow, expected = line.partition(ARROW)
        if arrow and prompt.strip() and expected.strip():
            yield number, {"prompt": prompt.strip(), "expected": expected.strip()}
        else:
            yield number, f'write "prompt {ARROW} expected answer"'
