"""The prober: does what the matrix says is due, keeps what it finds, and tells the book of health.

Rules:
- Only the holder of the lease probes. It ends what it does when it may have lost the lease.
- A failure that proves itself counts as a corrupt verdict. One that the model might be to blame for
  (a golden prompt it never understood) counts once this unit, or another that serves the same
  model, has shown that it can do better.
- A quarantined class is let in when every probe that the server offers has passed in one go, at
  least one of them; a failure or an error ends the attempt.
- Nothing here is on the way of anybody's response.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from typing import Any

from extproc.health import ALL, Probes, State
from extproc.probes.budget import Budget
from extproc.probes.client import Client, ClientSettings
from extproc.probes.errors import ProbeError
from extproc.probes.kinds import NAMES, Band, Judgement, Outcome
from extproc.probes.lease import Alone, Lease
from extproc.probes.matrix import Job, Matrix, Subject, Why
from extproc.probes.report import report
from extproc.probes.results import Cell, Result, Results
from extproc.probes.runner import NoRoom, Probed, Spent
from extproc.probes.servers import Servers
from extproc.probes.settings import ProberSettings
from extproc.probes.tenure import Tenure
from extproc.probes.view import View
from extproc.processor import Services

log = logging.getLogger(__name__)

STEP = 1.0
"""Seconds between two looks at what is due."""


class Prober:
    """Probes ``subjects`` in the background; ``run_now`` does it by hand."""

    def __init__(
        self,
        services: Services,
        subjects: Sequence[Subject],
        bands: Sequence[Band],
        settings: ProberSettings = ProberSettings(),
        lease: Lease | None = None,
    ) -> None:
        self._services = services
        self._settings = settings
        self.results = Results()
        self.budget = Budget(settings.limit, settings.window)
        self.matrix = Matrix(
            subjects,
            bands,
            self.results,
            self._quarantined,
            interval=settings.interval,
            first_pause=settings.first_pause,
            longest_pause=settings.longest_pause,
            seed=settings.seed,
        )
        self._servers = Servers(self.budget, self._now, settings)
        self.view = View(
            self.matrix, self.results, self.budget, self.identity, self.release, self._now
        )
        self._tenure = Tenure(lease or Alone(), self.snapshot, self.restore, self._told)
        self._busy = asyncio.Lock()
        self._started = False
        self._tasks: list[asyncio.Task[None]] = []
        self._working: asyncio.Task[None] | None = None
        self._no_room_until = float("-inf")
        self._trouble = ""

    # -- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begins to probe, once there is anything to probe."""
        self._started = True
        if not self.matrix.subjects or self._tasks:
            return
        self._services.components["probes"] = self.status
        self._tasks = [
            asyncio.create_task(self._tenure.run(), name="probe-lease"),
            asyncio.create_task(self._run(), name="probes"),
        ]

    async def reconfigure(self, subjects: Sequence[Subject], bands: Sequence[Band]) -> None:
        """Other units, classes or places to probe at, from the next probe on. A unit whose
        description has changed is another one: all of it is probed."""
        async with self._busy:
            before = self.matrix.subjects
            self.matrix.subjects = {subject.unit.id: subject for subject in subjects}
            self.matrix.bands = {band.name: band for band in bands}
            for unit in before:
                now = self.matrix.subjects.get(unit)
                if now is None or now.target != before[unit].target:
                    self._servers.forget(unit)
        if self._started:
            await self.start()

    async def stop(self) -> None:
        """Ends a probe that runs, and gives the lease up. Never raises."""
        self._started = False
        while waiting := [task for task in self._tasks if not task.done()]:
            for task in waiting:
                task.cancel()
            # A library that takes the cancelling for its own timeout swallows it: then once more.
            await asyncio.wait(waiting, timeout=1.0)
        self._tasks.clear()
        await self._tenure.close()

    def status(self) -> str:
        """For ``/healthz``."""
        if trouble := self._tenure.trouble or self._trouble:
            return f"waiting: {trouble}"
        return "ok" if self._tenure.holds else "another sidecar is the fleet's prober"

    # -- what is known ----------------------------------------------------------------------------

    def release(self, unit: str) -> str:
        """The release that a unit runs now, as far as anybody knows."""
        return self._services.ledger.release(unit) or self.matrix.subjects[unit].unit.release

    def identity(self, unit: str) -> str:
        """The unit's present identity, "" until its server has been asked."""
        subject, said = self.matrix.subjects.get(unit), self._servers.said(unit)
        return subject.identity(self.release(unit), said) if subject and said else ""

    def snapshot(self) -> dict[str, Any]:
        """What must outlive the process, as JSON values."""
        now = self._now()
        return {**self.results.snapshot(), "budget": self.budget.snapshot(now)}

    def restore(self, content: object) -> None:
        """Takes back a snapshot. What cannot be read is left: it is probed anew."""
        if not isinstance(content, dict):
            return
        try:
            self.results.restore(content)
            self.budget.restore(content.get("budget", ()))
        except ValueError as error:
            log.warning("%s; all of it is probed anew", error)
        self.results.forget(set(self.matrix.subjects))

    # -- by hand ----------------------------------------------------------------------------------

    @property
    def classes(self) -> tuple[str, ...]:
        """The context classes."""
        return tuple(self.matrix.bands)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of probes, in their order."""
        return NAMES

    def described(self, unit: str) -> dict[str, Any] | None:
        """All results of a unit, None for one that is not probed."""
        return self.view.described(unit)

    def refuses(self) -> str:
        """Why nothing can be probed from here now, "" if it can."""
        if self._tenure.holds:
            return ""
        return (
            "another sidecar is the fleet's prober: ask the one whose metric "
            "semantic_extproc_probe_leader is 1"
        )

    async def run_now(
        self, unit: str, contexts: Iterable[str] = (), kinds: Iterable[str] = ()
    ) -> AsyncGenerator[Result, None]:
        """Probes these cells, each once, as soon as what runs has ended. What there is no room for
        in the budget ends as an error. A quarantined class of which all passed is let in."""
        async with self._busy:
            for context in contexts or self.matrix.bands:
                cells = self.matrix.cells(unit, [context], kinds)
                done: list[Result] = []
                while len(done) < len(cells):
                    job = Job(Why.ASKED, tuple(cells[len(done) :]))
                    try:
                        async with aclosing(self._results_of(job)) as results:
                            async for result in results:
                                done.append(result)
                                yield result
                    except NoRoom as error:  # no result of the engine's: an earlier one stays
                        judgement = Judgement(Outcome.ERROR, str(error))
                        done.append(self._result(cells[len(done)], Probed(judgement, Spent())))
                        yield done[-1]
                self._recover(unit, context, done)

    # -- in the background ------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                await self._turn()
            except Exception:
                log.exception("a probe failed in a way of its own")
                self._services.metrics.errors.labels("probes").inc()
            await asyncio.sleep(STEP)

    async def _turn(self) -> None:
        if not self._tenure.holds or self._now() < self._no_room_until:
            return
        async with self._busy:
            await self._recognise()
            identities = {u: i for u in self.matrix.subjects if (i := self.identity(u))}
            job = self.matrix.due(identities, self._now())
            if job is None:
                return
            self._working = asyncio.create_task(self._do(job), name="probe")
            try:
                await self._working
            except asyncio.CancelledError:
                self._working.cancel()
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    raise
            finally:
                self._working = None

    async def _do(self, job: Job) -> None:
        results: list[Result] = []
        unit, context, _ = job.cells[0]
        key = unit, context
        try:
            async with aclosing(self._results_of(job)) as found:
                async for result in found:
                    results.append(result)
                    bad = result.outcome in (Outcome.FAILED, Outcome.ERROR)
                    if bad and job.why is Why.RECOVERY:
                        break
        except NoRoom as error:
            self._trouble = str(error)
            self._no_room_until = self._now() + (error.wait or self.budget.window)
            return
        now = self._now()
        if job.why is Why.RECOVERY and not self._recover(unit, context, results):
            self.matrix.recovery.failed(key, now)
        elif job.why is Why.DEPLOYMENT:
            if any(result.outcome is Outcome.ERROR for result in results):
                self.matrix.deployment.failed(key, now)
            else:
                self.matrix.deployment.clear(key)

    def _recover(self, unit: str, context: str, results: Sequence[Result]) -> bool:
        """Lets a quarantined class in if ``results`` are all of it, and none but well."""
        passed = sum(result.outcome is Outcome.PASSED for result in results)
        skipped = sum(result.outcome is Outcome.SKIPPED for result in results)
        cells = len(self.matrix.cells(unit, [context]))
        if not passed or passed + skipped != cells or not self._quarantined(unit, context):
            return False
        cause, now = f"all {passed} probes passed", self._now()
        return self._tell(Probes(unit, self.release(unit), context, ALL, passed, 0, cause, now))

    def _tell(self, probes: Probes) -> bool:
        try:
            self._services.probed(probes)
        except ValueError as error:  # another release came between
            log.warning("probes of unit %s were not taken: %s", probes.unit, error)
            return False
        return True

    def _told(self, holds: bool) -> None:
        self._services.metrics.probing.leader.set(float(holds))
        if not holds and self._working is not None:
            self._working.cancel()

    async def _results_of(self, job: Job) -> AsyncGenerator[Result, None]:
        """Probes the cells of a job, and takes each result in before it is handed on. Raises
        NoRoom."""
        if not job.cells:
            return
        unit = job.cells[0].unit
        client = Client(
            self.matrix.subjects[unit].target, ClientSettings(timeout=self._settings.timeout)
        )
        async with AsyncExitStack() as stack:
            trouble: Judgement | None = None
            try:
                await stack.enter_async_context(client)
                await self._servers.acquaint(unit, client)
            except ProbeError as error:
                self._trouble = f"unit {unit}: {error.kind}"
                trouble = Judgement(Outcome.ERROR, error.kind)
            else:
                self._trouble = ""
            for cell in job.cells:
                if trouble is None:
                    band = self.matrix.bands[cell.context]
                    probed = await self._servers.probe(cell, band, client)
                else:
                    probed = Probed(trouble, Spent())
                yield await self._took(cell, probed, job.why)

    async def _recognise(self) -> None:
        """Asks servers that were not asked yet who they are: it may be known of them what they
        can, from before a restart of ours. Makes nothing compute."""
        for unit, subject in self.matrix.subjects.items():
            if not self._servers.said(unit) and self.matrix.deployment.due((unit, ""), self._now()):
                try:
                    await self._servers.recognise(unit, subject.target)
                except ProbeError as error:
                    self._trouble = f"unit {unit}: {error.kind}"
                    self.matrix.deployment.failed((unit, ""), self._now())

    def _result(self, cell: Cell, probed: Probed) -> Result:
        unit, at = cell.unit, self._now()
        return probed.result(cell, self.release(unit), self.identity(unit), at)

    async def _took(self, cell: Cell, probed: Probed, why: Why) -> Result:
        result = self._result(cell, probed)
        model = self.matrix.subjects[cell.unit].unit.model
        if result.outcome is Outcome.FAILED and (result.proof or self.results.able(cell, model)):
            cause = f"{cell.kind}: {result.reason}"
            failed = Probes(
                cell.unit,
                result.release,
                cell.context,
                ALL,
                0,
                1,
                cause,
                result.at,
                result.findings,
            )
            result = replace(result, charged=self._tell(failed))
        self.results.put(result, model)
        cells = self.matrix.cells(cell.unit, [cell.context])
        last = [self.results.last(each) for each in cells]
        report(self._services.metrics.probing, result, why, last, self.budget)
        await self._tenure.share()
        return result

    def _quarantined(self, unit: str, context: str) -> bool:
        return self._services.ledger.class_state(unit, context) is State.QUARANTINE

    def _now(self) -> float:
        return self._services.clock()
