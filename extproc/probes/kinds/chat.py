"""Ordinary text: a short chat, and one at the end of a long context."""

from __future__ import annotations

from typing import ClassVar

from extproc.probes.filler import filler
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

QUESTION = "Explain in two or three sentences why the sky is blue."

AROUND = 512
"""Bytes of a request beside the filler: the question, the fields, line ends as JSON writes them."""

LEAST_CONTEXT = 256
"""Tokens below which a context is not long."""


class ShortChat(Probe):
    """A question that every model has an answer to, streamed."""

    name: ClassVar[str] = "chat"
    title: ClassVar[str] = "short chat"

    def requests(self, room: Room) -> list[Request]:
        return [chat_request(room, QUESTION, 64, stream=True)]

    def check(self, room: Room, replies: list[Reply]) -> Judgement:
        return said_something(self.name, replies[0])


class LongContext(Probe):
    """A question after as much text as the class and the model take, up to the target."""

    name: ClassVar[str] = "long"
    title: ClassVar[str] = "long context"
    answer: ClassVar[int] = 32

    def target(self, room: Room) -> int:
        """Prompt tokens that are aimed at. Raises Skip."""
        context = room.capabilities.max_context
        most = room.long_tokens
        if context is not None:
            # Sentences differ in what they come to: a twentieth was seen.
            most = min(most, int(0.9 * (context - self.answer - 64)))
        if room.band.high is not None:
            most = min(most, int((room.band.high - AROUND) * (room.tokens.rate or 0.22)))
        least = int(room.band.low * (room.tokens.rate or 0.22))
        if most < max(least, LEAST_CONTEXT):
            raise Skip(
                f"class {room.band.name} needs at least {max(least, LEAST_CONTEXT)} tokens; "
                f"{most} are what the model, the class and probes.long_tokens allow"
            )
        return most

    def requests(self, room: Room) -> list[Request]:
        size = room.tokens.bytes_for(self.target(room))
        text = filler(size - len(QUESTION) - 64, room.seed + 1)
        question = f"That was a list of unrelated notes. {QUESTION}"
        made = chat_request(room, question, self.answer, before=text, stream=True)
        if room.band.high is not None and made.size > room.band.high:
            raise Skip(f"what it takes is more than the {room.band.high} bytes of the class")
        return [made]

    def check(self, room: Room, replies: list[Reply]) -> Judgement:
        reply, target = replies[0], self.target(room)
        seen = reply.usage.prompt
        if room.tokens.rate is not None and 0 <= seen < 0.5 * target:
            said = f"the server counts {seen} prompt tokens of about {target} sent: it cuts prompts"
            return failed(self.name, "truncated", said, seen, target)
        found = said_something(self.name, reply)
        if found.findings or seen < 0:
            return found
        return passed(f"{seen} prompt tokens")


def said_something(kind: str, reply: Reply) -> Judgement:
    """Whether there is a whole answer with text in it."""
    if not (reply.text or reply.reasoning or reply.refusal).strip():
        return failed(kind, "empty", f"no text in {reply.usage.completion} tokens")
    if not reply.whole:
        return failed(kind, "cut", "the answer stops without its end")
    return passed()
