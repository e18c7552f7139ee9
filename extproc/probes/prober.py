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
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from extproc.health import ALL, Probes, State
from extproc.health.stores import StoreError
from extproc.probes.budget import Budget, Cost
from extproc.probes.client import Client, ClientSettings
from extproc.probes.discovery import Capabilities, fingerprint
from extproc.probes.errors import ProbeError
from extproc.probes.filler import Tokens
from extproc.probes.kinds import Judgement, Outcome, Probe, Room, make_probes
from extproc.probes.kinds.base import Band
from extproc.probes.lease import Alone, Lease
from extproc.probes.matrix import Job, Matrix, Subject, Why
from extproc.probes.results import Cell, Result, Results
from extproc.probes.runner import NoRoom, Probed, Runner, Spent
from extproc.processor import Services

log = logging.getLogger(__name__)

STEP = 1.0
"""Seconds between two looks at what is due."""


@dataclass(frozen=True, slots=True)
class ProberSettings:
    """Times in seconds. ``limit`` in each ``window`` is what probes may spend."""

    interval: float = 60.0
    timeout: float = 60.0
    limit: Cost = Cost(200, 250_000, 900.0)
    window: float = 3600.0
    long_tokens: int = 8192
    first_pause: float = 30.0
    longest_pause: float = 600.0
    seed: int = 0
    probes: Mapping[str, Probe] = field(default_factory=make_probes)


@dataclass(slots=True)
class _Server:
    """What is known of one unit's server."""

    capabilities: Capabilities
    said: str
    tokens: Tokens


class NotHolder(Exception):
    """Another sidecar is the fleet's prober."""


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
        self._lease: Lease = lease or Alone()
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
        self._servers: dict[str, _Server] = {}
        self._token = 0
        self._held_until = float("-inf")
        self._busy = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._working: asyncio.Task[None] | None = None
        self._trouble = ""

    # -- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begins to probe, if there is anything to probe."""
        if not self.matrix.subjects:
            return
        self._services.components["probes"] = self.status
        self._tasks = [
            asyncio.create_task(self._keep_lease(), name="probe-lease"),
            asyncio.create_task(self._run(), name="probes"),
        ]

    async def stop(self) -> None:
        """Ends a probe that runs, and gives the lease up. Never raises."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()
        await self._share()
        await self._lease.close()
        self._token = 0

    def status(self) -> str:
        """For ``/healthz``."""
        if self._trouble:
            return f"waiting: {self._trouble}"
        return "ok" if self._holds else "another sidecar of the fleet probes"

    # -- what is known ----------------------------------------------------------------------------

    def release(self, unit: str) -> str:
        """The release that a unit runs now, as far as anybody knows."""
        return self._services.ledger.release(unit) or self.matrix.subjects[unit].unit.release

    def identity(self, unit: str) -> str:
        """The unit's present identity, "" until its server has been asked."""
        server = self._servers.get(unit)
        subject = self.matrix.subjects.get(unit)
        if server is None or subject is None:
            return ""
        return subject.identity(self.release(unit), server.said)

    def described(self, unit: str) -> dict[str, Any] | None:
        """All results of a unit, None for one that is not probed."""
        if unit not in self.matrix.subjects:
            return None
        identity = self.identity(unit)
        used, limit = self.budget.used(self._services.clock()), self.budget.limit
        return {
            "unit": unit,
            "release": self.release(unit),
            "summary": self.summary(unit),
            "budget": {
                "window_seconds": self.budget.window,
                "used": used._asdict(),
                "limit": limit._asdict(),
            },
            "results": [
                {**result.shown(), "current": self._current(result, identity)}
                for result in self.results.of_unit(unit)
            ],
        }

    def summary(self, unit: str) -> dict[str, Any] | None:
        """How many probes of the present release came out how, None for an unprobed unit."""
        if unit not in self.matrix.subjects:
            return None
        identity = self.identity(unit)
        found = [r for r in self.results.of_unit(unit) if self._current(r, identity)]
        counts = {each.value: sum(r.outcome is each for r in found) for each in Outcome}
        at = max((result.at for result in found), default=None)
        return {"cells": len(self.matrix.cells(unit)), **counts, "at": at}

    def snapshot(self) -> dict[str, Any]:
        """What must outlive the process, as JSON values."""
        return {**self.results.snapshot(), "budget": self.budget.snapshot()}

    def restore(self, content: Any) -> None:
        """Takes back a snapshot. What cannot be read is left: it is probed anew."""
        if not isinstance(content, dict):
            return
        try:
            self.results.restore(content)
            self.budget.restore(content.get("budget", ()), self._services.clock())
        except ValueError as error:
            log.warning("%s; all of it is probed anew", error)
        self.results.forget(set(self.matrix.subjects))

    # -- by hand ----------------------------------------------------------------------------------

    async def run_now(
        self, unit: str, contexts: Iterable[str] = (), kinds: Iterable[str] = ()
    ) -> AsyncIterator[Result]:
        """Probes these cells now, each once, within the budget. Raises NotHolder."""
        if not self._holds:
            raise NotHolder
        async with self._busy:
            for context in contexts or self.matrix.bands:
                job = Job(Why.ASKED, tuple(self.matrix.cells(unit, [context], kinds)))
                async with aclosing(self._results_of(job)) as results:
                    async for result in results:
                        yield result

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
        if not self._holds:
            return
        async with self._busy:
            identities = {u: i for u in self.matrix.subjects if (i := self.identity(u))}
            job = self.matrix.due(identities, self._services.clock())
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
        async with aclosing(self._results_of(job)) as found:
            async for result in found:
                results.append(result)
                if job.why is Why.RECOVERY and result.outcome in (Outcome.FAILED, Outcome.ERROR):
                    break
        key, now = (unit, context), self._services.clock()
        passed = sum(result.outcome is Outcome.PASSED for result in results)
        bad = sum(result.outcome in (Outcome.FAILED, Outcome.ERROR) for result in results)
        if job.why is Why.RECOVERY:
            if passed and not bad and len(results) == len(job.cells):
                self._let_in(unit, context, passed, now)
                self.matrix.recovery.clear(key)
            else:
                self.matrix.recovery.failed(key, now)
        elif job.why is Why.DEPLOYMENT:
            if any(result.outcome is Outcome.ERROR for result in results):
                self.matrix.deployment.failed(key, now)
            else:
                self.matrix.deployment.clear(key)

    def _let_in(self, unit: str, context: str, passed: int, now: float) -> None:
        cause = f"all {passed} probes passed"
        self._tell(Probes(unit, self.release(unit), context, ALL, passed, 0, cause, now))

    def _tell(self, probes: Probes) -> bool:
        try:
            self._services.probed(probes)
        except ValueError as error:  # another release came between
            log.warning("probes of unit %s were not taken: %s", probes.unit, error)
            return False
        return True

    async def _results_of(self, job: Job) -> AsyncIterator[Result]:
        """Probes the cells of a job, and takes each result in before it is handed on."""
        unit = job.cells[0].unit if job.cells else ""
        if not unit:
            return
        subject, settings = self.matrix.subjects[unit], self._settings
        async with Client(subject.target, ClientSettings(timeout=settings.timeout)) as client:
            trouble = await self._acquaint(unit, client, patient=job.why is not Why.ASKED)
            for cell in job.cells:
                if trouble is not None:
                    probed = Probed(trouble, Spent())
                else:
                    probed = await self._probe(cell, client, patient=job.why is not Why.ASKED)
                yield await self._took(cell, probed, job.why)

    async def _acquaint(self, unit: str, client: Client, *, patient: bool) -> Judgement | None:
        """Learns what the server offers, if that is not known of what it runs now. What keeps it
        from that."""
        known = self._servers.get(unit)
        try:
            said = await fingerprint(client)
            if known is not None and known.said == said:
                return None
            tokens = Tokens()
            runner = self._runner(client, tokens, patient)
            self._servers[unit] = _Server(await runner.discover(), said, tokens)
        except NoRoom as error:
            return Judgement(Outcome.ERROR, str(error))
        except ProbeError as error:
            self._trouble = f"unit {unit}: {error.kind}"
            return Judgement(Outcome.ERROR, error.kind)
        self._trouble = ""
        return None

    async def _probe(self, cell: Cell, client: Client, *, patient: bool) -> Probed:
        server = self._servers[cell.unit]
        room = Room(
            model=server.capabilities.model,
            capabilities=server.capabilities,
            band=self.matrix.bands[cell.context],
            tokens=server.tokens,
            long_tokens=self._settings.long_tokens,
            seed=self._settings.seed,
        )
        runner = self._runner(client, server.tokens, patient)
        try:
            return await runner.probe(self._settings.probes[cell.kind], room)
        except NoRoom as error:
            return Probed(Judgement(Outcome.ERROR, str(error)), Spent())

    def _runner(self, client: Client, tokens: Tokens, patient: bool) -> Runner:
        return Runner(client, self.budget, tokens, self._services.clock, patient=patient)

    async def _took(self, cell: Cell, probed: Probed, why: Why) -> Result:
        judgement, spent = probed.judgement, probed.spent
        subject, now = self.matrix.subjects[cell.unit], self._services.clock()
        result = Result(
            cell=cell,
            release=self.release(cell.unit),
            identity=self.identity(cell.unit),
            outcome=judgement.outcome,
            at=now,
            reason=judgement.reason,
            findings=judgement.findings,
            proof=judgement.proof,
            seconds=round(spent.seconds, 3),
            requests=spent.requests,
            prompt_tokens=spent.prompt,
            completion_tokens=spent.completion,
            corroborated=probed.corroborated,
        )
        model = subject.unit.model
        if result.outcome is Outcome.FAILED and (
            judgement.proof or self.results.able(cell, model)
        ):
            cause = f"{cell.kind}: {judgement.reason}"
            failed = Probes(
                cell.unit, result.release, cell.context, ALL, 0, 1, cause, now, result.findings
            )
            result = replace(result, charged=self._tell(failed))
        self.results.put(result, model)
        self._count(result, why)
        await self._share()
        return result

    def _count(self, result: Result, why: Why) -> None:
        cell, metrics = result.cell, self._services.metrics.probing
        tokens = max(0, result.prompt_tokens) + max(0, result.completion_tokens)
        metrics.result(
            cell.unit, cell.context, cell.kind, result.outcome.value, result.seconds, tokens
        )
        used = self.budget.used(result.at)
        for name, part, whole in zip(used._fields, used, self.budget.limit, strict=True):
            metrics.budget.labels(name).set(part / whole if whole else 1.0)
        cells = self.matrix.cells(cell.unit, [cell.context])
        last = [self.results.last(each) for each in cells]
        well = (Outcome.PASSED, Outcome.SKIPPED)
        if all(r is not None and r.identity == result.identity and r.outcome in well for r in last):
            metrics.passed(cell.unit, cell.context, result.at)
        log.log(
            logging.WARNING if result.outcome is Outcome.FAILED else logging.INFO,
            "probe %s of unit %s (%s): %s",
            cell.kind,
            cell.unit,
            cell.context,
            result.outcome.value,
            extra={
                "unit": cell.unit,
                "class": cell.context,
                "kind": cell.kind,
                "outcome": result.outcome.value,
                "release": result.release,
                "reason": result.reason,
                "why": why.value,
                "charged": result.charged,
                "findings": [finding.name for finding in result.findings],
            },
        )

    def _quarantined(self, unit: str, context: str) -> bool:
        return self._services.ledger.class_state(unit, context) is State.QUARANTINE

    @staticmethod
    def _current(result: Result, identity: str) -> bool:
        return not identity or result.identity == identity

    # -- the lease --------------------------------------------------------------------------------

    @property
    def _holds(self) -> bool:
        return bool(self._token) and self._now() < self._held_until

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    async def _keep_lease(self) -> None:
        lease = self._lease
        while True:
            asked = self._now()
            try:
                token = await lease.hold()
                if token and token != self._token:
                    self.restore(await lease.load())
                elif not token:
                    self.restore(await lease.load())
                self._token, self._held_until = token, asked + 0.8 * lease.seconds
            except StoreError as error:
                # Until it ends the lease is still ours; nobody else can have it.
                self._trouble = str(error)
            self._services.metrics.probing.leader.set(float(self._holds))
            if not self._holds and self._working is not None:
                self._working.cancel()
            await asyncio.sleep(min(lease.seconds / 4, 5.0))

    async def _share(self) -> None:
        if not self._token:
            return
        with suppress(StoreError):  # said by the one that keeps the lease
            if not await self._lease.save(self._token, self.snapshot()):
                self._token = 0

