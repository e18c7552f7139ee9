"""The kinds of probes."""

from collections.abc import Sequence

from extproc.probes.kinds.base import (
    Answer,
    Band,
    Judgement,
    Outcome,
    Probe,
    Request,
    Room,
    Skip,
)
from extproc.probes.kinds.chat import LongContext, ShortChat
from extproc.probes.kinds.golden import DEFAULT, Golden, GoldenProbe, load_golden
from extproc.probes.kinds.numbers import Embeddings, LogProbabilities
from extproc.probes.kinds.structured import JsonSchema, ToolCall

NAMES = ("golden", "chat", "long", "json", "tools", "logprobs", "embedding")
"""Of all kinds, the cheapest first."""


def make_probes(golden: Sequence[Golden] = DEFAULT) -> dict[str, Probe]:
    """Every kind by its name."""
    made: list[Probe] = [
        GoldenProbe(golden),
        ShortChat(),
        LongContext(),
        JsonSchema(),
        ToolCall(),
        LogProbabilities(),
        Embeddings(),
    ]
    return {probe.name: probe for probe in made}


__all__ = [
    "DEFAULT",
    "NAMES",
    "Answer",
    "Band",
    "Embeddings",
    "Golden",
    "GoldenProbe",
    "JsonSchema",
    "Judgement",
    "LogProbabilities",
    "LongContext",
    "Outcome",
    "Probe",
    "Request",
    "Room",
    "ShortChat",
    "Skip",
    "ToolCall",
    "load_golden",
    "make_probes",
]
