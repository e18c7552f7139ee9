"""Plain prose is told at a glance; whatever could be salad is not."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from extproc.detect.salad.model import model
from extproc.detect.salad.prose import plain

BENCH = Path(__file__).resolve().parents[3] / "bench"
WINDOW = 384

PROSE = (
    "The harbour was quiet when she came down to look for the boat that had brought them there. "
    "A man sat on the wall and watched the water as if he had all of the time in the world, and "
    "when she asked him where it had gone he only said that it would be back before the evening."
)


def is_plain(text: str) -> bool:
    return plain(text, model().tables.common)


def test_prose_is_plain() -> None:
    assert is_plain(PROSE)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The the of of and and to to a a in in is is that that for for be be as as it it this this",
        PROSE.replace(" ", ""),
        "\n".join(PROSE.split()),
        PROSE.replace("a", "#"),
        "\n or and thent>\n\n\n\nMy all, for whichother or alls?\n\n as\n\n years\n\n No",
        "Der Hafen war still, als sie hinunterging, um nach dem Boot zu sehen, das sie brachte.",
    ],
)
def test_what_is_not_plain_is_weighed(text: str) -> None:
    assert not is_plain(text)


def test_nearly_nothing_of_really_damaged_models_passes_as_plain() -> None:
    passed = alarming = 0
    with gzip.open(BENCH / "salads.jsonl.gz", "rt") as lines:
        for line in lines:
            text = json.loads(line)["text"]
            for start in range(0, max(1, len(text) - WINDOW), WINDOW):
                window = text[start : start + WINDOW]
                score = model().score(window)
                if score is not None and score >= 1.7:
                    alarming += 1
                    passed += is_plain(window)
    assert alarming > 100
    assert passed <= 0.02 * alarming
