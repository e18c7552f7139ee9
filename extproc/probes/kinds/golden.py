"""Golden prompts: questions with one right answer, which a healthy model gives every time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from extproc.probes.kinds.base import Judgement, Probe, Request, Room, Skip, chat_request, failed
from extproc.probes.kinds.base import passed as well
from extproc.probes.reply import Reply

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


@dataclass(frozen=True)
class GoldenProbe(Probe):
    """Every golden prompt of the class gets its expected answer."""

    prompts: Sequence[Golden] = field(default=DEFAULT)
    name: ClassVar[str] = "golden"
    title: ClassVar[str] = "golden prompt"

    def requests(self, room: Room) -> list[Request]:
        fields: dict[str, Any] = {"top_p": 1}
        found = [
            chat_request(room, golden.prompt, golden.max_tokens, **fields)
            for golden in self._of(room)
        ]
        if not found:
            raise Skip(f"no golden prompt is for class {room.band.name}")
        return found

    def check(self, room: Room, replies: list[Reply]) -> Judgement:
        wrong = [
            (place, golden, reply)
            for place, (golden, reply) in enumerate(zip(self._of(room), replies, strict=True))
            if not golden.met(reply.text)
        ]
        if not wrong:
            return well()
        place, golden, reply = wrong[0]
        said = (
            f"{len(wrong)} of {len(replies)} are not answered as expected; the first is [{place}]"
        )
        said += f": {len(reply.text)} characters, {len(golden.expected)} expected"
        if not reply.text and reply.reasoning:
            said += "; all of it was reasoning: raise max_tokens, or turn thinking off"
        return failed(self.name, "mismatch", said, len(wrong))

    def _of(self, room: Room) -> list[Golden]:
        return [g for g in self.prompts if not g.classes or room.band.name in g.classes]
