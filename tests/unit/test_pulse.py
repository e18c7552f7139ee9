"""A loop that stands still is told of, with where it stands."""

from __future__ import annotations

import asyncio
import json
import logging
import time

import pytest

from extproc.logs import JsonFormatter
from extproc.pulse import BEAT_SECONDS, Pulses, Watchdog, places


def hang(seconds: float) -> None:
    time.sleep(seconds)


async def test_a_hung_loop_is_told_of_once_with_its_stack(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stalls: list[float] = []
    watchdog = Watchdog(lambda: stalls.append(time.monotonic()))
    watchdog.start()
    try:
        await asyncio.sleep(2 * BEAT_SECONDS)
        assert not stalls
        hang(2.5)
        await asyncio.sleep(2 * BEAT_SECONDS)
    finally:
        watchdog.stop()
    assert len(stalls) == 1
    (record,) = (r for r in caplog.records if r.levelno == logging.ERROR)
    line = json.loads(JsonFormatter().format(record))
    assert line["stack"][-1].endswith(" hang")
    assert "seconds" not in json.dumps(line["stack"]), "no source text"


async def test_a_loop_that_runs_beats(caplog: pytest.LogCaptureFixture) -> None:
    pulses = Pulses.make(3)
    assert pulses.last(1) == 0
    watchdog = Watchdog(lambda: None, lambda: pulses.beat(1))
    watchdog.start()
    try:
        first = pulses.last(1)
        await asyncio.sleep(3 * BEAT_SECONDS)
        assert pulses.last(1) > first > 0
        assert pulses.last(0) == pulses.last(2) == 0
    finally:
        watchdog.stop()
    pulses.clear(1)
    assert pulses.last(1) == 0
    assert not caplog.records


def test_places_of_a_thread_that_is_gone_are_none() -> None:
    assert places(12345) == []
