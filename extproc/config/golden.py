"""Golden prompts: a file of questions, each with its one right answer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

_THOUGHT = re.compile(r"^\s*<think>.*?</think>", re.DOTALL)


class Golden(BaseModel):
    """One golden prompt. ``match``: how the answer, without blanks at its ends, is compared with
    ``expected``. ``classes``: of context; all without any."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt: str = Field(min_length=1)
    expected: str = Field(min_length=1)
    match: Literal["exact", "prefix", "contains", "regex"] = "exact"
    max_tokens: int = Field(16, ge=1, le=4096)
    classes: list[str] = []

    @field_validator("expected")
    @classmethod
    def _trimmed(cls, value: str) -> str:
        return value.strip()

    @model_validator(mode="after")
    def _compiles(self) -> Golden:
        if self.match == "regex":
            try:
                re.compile(self.expected)
            except re.error as error:
                raise ValueError(f"expected: is no regular expression: {error}") from None
        return self

    def met(self, answer: str) -> bool:
        """Whether ``answer`` is the right one."""
        answer = _THOUGHT.sub("", answer).strip()
        if self.match == "exact":
            return answer == self.expected
        if self.match == "prefix":
            return answer.startswith(self.expected)
        if self.match == "contains":
            return self.expected in answer
        return re.search(self.expected, answer) is not None


DEFAULT = (Golden(prompt="Reply with exactly: OK", expected="OK"),)


def load_golden(path: Path) -> tuple[Golden, ...]:
    """The golden prompts of a YAML or JSON file: a list of them. Raises ValueError, which names
    the place."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: is no YAML or JSON: {_line(error)}") from None
    if not isinstance(content, list) or not content:
        raise ValueError(f"{path}: must be a list of prompts with their expected answers")
    found = []
    for place, entry in enumerate(content):
        try:
            found.append(Golden.model_validate(entry))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            said = str(first["msg"]).removeprefix("Value error, ")
            raise ValueError(f"{path}: [{place}]{'.' + where if where else ''}: {said}") from None
    return tuple(found)


def _line(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f"line {mark.line + 1}" if mark is not None else type(error).__name__
