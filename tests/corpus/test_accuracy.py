"""Floors on what is caught and ceilings on false alarms, on everything that is labelled."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from bench import natural
from bench.accuracy import ENDINGS, FILES, cases, events_of, facts_of, judge, passage_events
from extproc.detect import Kind

FLOOR = {"exchanges": 0.94, "captures": 0.97, "generations": 0.7}
"""Share of the corrupt cases, oracle cases aside, that must be called corrupt."""

CEILING = 0.01
"""Share of the healthy cases that may be."""


@pytest.mark.parametrize("file", FILES)
def test_recall_and_false_alarms_keep_to_their_bounds(file: str) -> None:
    name = file.partition(".")[0]
    counts: Counter[tuple[str, bool]] = Counter()
    wrong = []
    for case in cases(file):
        if case.get("difficulty") == "oracle":
            continue
        corrupt = judge(events_of(case), facts_of(case)).kind is Kind.CORRUPT
        counts[case["label"], corrupt] += 1
        if corrupt != (case["label"] == "corrupt"):
            wrong.append(case["id"])
    caught, missed = counts["corrupt", True], counts["corrupt", False]
    alarms, quiet = counts["healthy", True], counts["healthy", False]
    assert caught >= FLOOR[name] * (caught + missed), wrong
    assert alarms <= max(1, CEILING * (alarms + quiet)), wrong


def test_hidden_requests_cost_few_false_alarms() -> None:
    healthy = [case for case in cases(FILES[0]) if case["label"] == "healthy"]
    alarms = [case["id"] for case in healthy if judge(events_of(case), None).kind is Kind.CORRUPT]
    assert len(alarms) <= 0.05 * len(healthy), alarms


def test_natural_text_of_this_machine_is_not_corrupt() -> None:
    found = natural.files([Path(sys.base_prefix), Path("/usr/share/doc"), Path("/usr/share/man")])
    alarms = []
    for passage in natural.passages(400, 5, found=found):
        for streamed in (False, True):
            for ending in ENDINGS:
                verdict = judge(passage_events(passage.text, streamed, ending), None)
                if verdict.kind is Kind.CORRUPT:
                    alarms.append((passage.source, ending, verdict.findings))
    assert len({source for source, _, _ in alarms}) <= 1, alarms
