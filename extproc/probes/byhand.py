"""Probes by hand, without a sidecar: nothing is kept, nobody is charged."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence

from extproc.probes.budget import Budget
from extproc.probes.client import Client, ClientSettings
from extproc.probes.errors import ProbeError
from extproc.probes.filler import Tokens
from extproc.probes.kinds import Judgement, Outcome, Room
from extproc.probes.matrix import Matrix, Subject
from extproc.probes.prober import ProberSettings
from extproc.probes.results import Cell, Result
from extproc.probes.runner import NoRoom, Probed, Runner, Spent


async def probe_by_hand(
    subject: Subject, cells: Sequence[Cell], matrix: Matrix, settings: ProberSettings
) -> AsyncGenerator[Result, None]:
    """Probes ``cells`` of ``subject``, each once. What cannot be probed is an error of its own."""
    budget, tokens = Budget(settings.limit, settings.window), Tokens()
    release = subject.unit.release
    try:
        async with Client(subject.target, ClientSettings(timeout=settings.timeout)) as client:
            runner = Runner(client, budget, tokens, time.time)
            capabilities = await runner.discover()
            for cell in cells:
                room = Room(
                    capabilities.model,
                    capabilities,
                    matrix.bands[cell.context],
                    tokens,
                    settings.long_tokens,
                    settings.seed,
                )
                try:
                    probed = await runner.probe(settings.probes[cell.kind], room)
                except NoRoom as error:
                    probed = Probed(Judgement(Outcome.ERROR, str(error)), Spent())
                yield probed.result(cell, release, "", time.time())
                cells = cells[1:]
    except (ProbeError, NoRoom) as error:
        for cell in cells:
            probed = Probed(Judgement(Outcome.ERROR, str(error)), Spent())
            yield probed.result(cell, release, "", time.time())
