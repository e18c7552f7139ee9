"""A case, and what every kind of case is drawn with."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.adversary.data import SCRIPTS
from bench.public import tokens_of
from extproc.wire import Channel, Event, Finish, RequestFacts, Text, Usage

ANSWERS = Path(__file__).parents[1] / "answers.jsonl.gz"


@dataclass
class Case:
    """What an engine answered, and how it was sent."""

    text: str
    ending: str = "stop"
    streamed: bool = True
    prompt: str = ""
    pieces: list[str] = field(default_factory=list)

    def events(self) -> list[list[Event]]:
        """As the wire hands them on, chunk by chunk."""
        pieces = self.pieces or tokens_of(self.text)
        out: list[list[Event]] = []
        if self.streamed:
            out = [[Text(0, Channel.CONTENT, piece, 1)] for piece in pieces]
        else:
            out = [[Text(0, Channel.CONTENT, self.text, 0)], [Usage(20, len(pieces), -1)]]
        return [*out, [Finish(0, self.ending)]] if self.ending else out

    def request(self) -> RequestFacts | None:
        """What was asked, None where nobody can see it."""
        if not self.prompt:
            return None
        body = {"messages": [{"role": "user", "content": self.prompt}]}
        return RequestFacts.parse("POST", "/v1/chat/completions", body)


class Maker:
    """What cases are drawn with: a seed, answers of a real model, their words, a vocabulary."""

    def __init__(self, seed: int, vocabulary: list[str]) -> None:
        self.rng = random.Random(seed)
        with gzip.open(ANSWERS, "rt") as file:
            answers = [json.loads(line)["text"] for line in file]
        self.answers = [text for text in answers if len(text) > 600]
        self.words: list[str] = sorted(set(re.findall(r"[a-z]{3,}", " ".join(self.answers))))
        self.syllables = sorted({w[i : i + 3] for w in self.words for i in range(0, len(w) - 2, 2)})
        self.vocabulary = [token for token in vocabulary if token.strip()]

    def prose(self, tokens: int) -> str:
        """So many tokens of an answer."""
        return "".join(tokens_of(self.rng.choice(self.answers))[:tokens])

    def case(self, text: str, *endings: str, pieces: Sequence[str] = ()) -> Case:
        """``text``, ended one of these ways. ``pieces``: its tokens, where it is to be cut so."""
        streamed = self.rng.random() < 0.6
        return Case(text, self.rng.choice(endings), streamed, "", list(pieces))

    def token(self, latin: bool) -> str:
        """A token of a multilingual vocabulary, or of its ASCII part."""
        rng = self.rng
        if self.vocabulary:
            while True:
                token: str = rng.choice(self.vocabulary)
                if not latin or (token.isascii() and token.isprintable()):
                    return token
        if latin or rng.random() < 0.45:
            word = rng.choice(self.words if rng.random() < 0.5 else self.syllables)
            word = rng.choice([*[word] * 8, word.title(), word.upper()])
            return (" " if rng.random() < 0.55 else "") + word
        script = rng.choice(SCRIPTS)
        word = "".join(rng.choice(script) for _ in range(rng.randint(1, 4)))
        return (" " if rng.random() < 0.5 else "") + word


Make = Callable[[Maker], Case]


def kinds(*functions: Make) -> dict[str, Make]:
    """The functions by name: each makes one case of its kind."""
    return {function.__name__: function for function in functions}
