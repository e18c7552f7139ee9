"""Golden prompts: questions with one right answer, which a healthy model gives every time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from extproc.config.golden import DEFAULT, Golden, load_golden
from extproc.probes.kinds.base import (
    Judgement,
    Probe,
    Request,
    Room,
    Skip,
    chat_request,
    failed,
    passed,
)
from extproc.probes.reply import Reply

__all__ = ["DEFAULT", "Golden", "GoldenProbe", "load_golden"]


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
            return passed()
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
