"""Probes by hand, without a sidecar: nothing is kept, nobody is charged."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence

from extproc.probes.budget import Budget
from extproc.probes.client import Client, ClientSettings
from extproc.probes.errors import ProbeError
from extproc.probes.kinds import Judgement, Outcome
from extproc.probes.matrix import Matrix, Subject
from extproc.probes.results import Cell, Result
from extproc.probes.runner import NoRoom, Probed, Spent
from extproc.probes.servers import Servers
from extproc.probes.settings import ProberSettings


async def probe_by_hand(
    subject: Subject, cells: Sequence[Cell], matrix: Matrix, settings: ProberSettings
) -> AsyncGenerator[Result, None]:
    """Probes ``cells`` of ``subject``, each once. What cannot be probed is an error of its own."""
    servers = Servers(Budget(settings.limit, settings.window), time.time, settings)
    release = subject.unit.release
    try:
        async with Client(subject.target, ClientSettings(timeout=settings.timeout)) as client:
            await servers.discover(subject.unit.id, client)
            for cell in cells:
                try:
                    probed = await servers.probe(cell, matrix.bands[cell.context], client)
                except NoRoom as error:
                    probed = Probed(Judgement(Outcome.ERROR, str(error)), Spent())
                yield probed.result(cell, release, "", time.time())
                cells = cells[1:]
    except (ProbeError, NoRoom) as error:
        for cell in cells:
            probed = Probed(Judgement(Outcome.ERROR, str(error)), Spent())
            yield probed.result(cell, release, "", time.time())
