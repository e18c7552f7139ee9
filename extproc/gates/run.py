"""Runs gates in order, keeps what is finished, and calls for a rollback where one is due."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from extproc.gates.conditions import Condition
from extproc.gates.outcome import Check, GateResult, Status, failed, hit, overall, skipped
from extproc.gates.plan import Gate, Planned
from extproc.gates.rollback import Delivery, Rollbacks
from extproc.gates.store import Store, StoreTrouble, now

VERSION = 1
"""Of the state file, and of the report's JSON."""


class Watcher(Protocol):
    """Who is told how a run goes."""

    def began(self, gate: Gate, planned: Planned, done: int, total: int) -> None:
        """A check begins; ``done`` of ``total`` are finished."""

    def ended(self, gate: Gate, check: Check, resumed: bool) -> None:
        """A check is finished, now or in an earlier run."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is under test: for reports. URLs hold no user, password or query."""

    release: str
    model: str
    candidate: str
    baseline: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Report:
    """A finished run. ``rollback``: the conditions that were hit and that call for one."""

    run: str
    subject: Subject
    started: str
    finished: str
    gates: tuple[GateResult, ...]
    rollback: tuple[Condition, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    path: Mapping[str, Any] = field(default_factory=dict)

    @property
    def status(self) -> Status:
        """Of all gates together."""
        return overall(gate.status for gate in self.gates)

    @property
    def exit_code(self) -> int:
        """0 passed, 1 failed, 3 nothing failed and something is undecided or nothing measured."""
        return {Status.PASSED: 0, Status.FAILED: 1}.get(self.status, 3)

    def as_dict(self) -> dict[str, Any]:
        """The report's JSON. Fields may be added to it; none changes its meaning."""
        subject = self.subject
        return {
            "version": VERSION,
            "run": self.run,
            "release": subject.release,
            "model": subject.model,
            "candidate": subject.candidate,
            "baseline": subject.baseline,
            "started": self.started,
            "finished": self.finished,
            "result": self.status.value,
            "exit_code": self.exit_code,
            "notes": list(subject.notes),
            "gates": [gate.as_dict() for gate in self.gates],
            "execution_path": dict(self.path),
            "rollback": {
                "conditions": [condition.value for condition in self.rollback],
                "calls": [delivery.as_dict() for delivery in self.deliveries],
            },
        }


class State:
    """The state file of one run. Written after every check; raises StoreTrouble."""

    def __init__(self, store: Store, path: Path, content: Mapping[str, Any] | None) -> None:
        self._store, self._path = store, path
        self.run = secrets.token_hex(8)
        self.started = now()
        self._checks: dict[str, dict[str, Any]] = {}
        self.calls: dict[str, dict[str, Any]] = {}
        """Of the rollback, by condition set and receiver."""
        if content is not None:
            self._take(content)

    def _take(self, content: Mapping[str, Any]) -> None:
        try:
            if content["version"] != VERSION:
                raise ValueError("written by another version")
            self.run, self.started = str(content["run"]), str(content["started"])
            self._checks = {name: dict(entry) for name, entry in content["checks"].items()}
            self.calls = {name: dict(entry) for name, entry in content["calls"].items()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StoreTrouble(
                f"{self._path}: is no state of a run ({error}); leave --resume out to begin anew"
            ) from None

    def finished(self, gate: Gate, planned: Planned) -> Check | None:
        """The check as an earlier run had it, if its inputs are the same and it was answered."""
        entry = self._checks.get(f"{gate.name}/{planned.name}")
        if entry is None or planned.derived or entry.get("inputs") != gate.fingerprint(planned):
            return None
        try:
            check = Check.from_dict(entry["check"])
        except (KeyError, TypeError, ValueError):
            return None
        return check if check.answered else None

    def keep(self, gate: Gate, planned: Planned, check: Check) -> None:
        """Keeps a finished check."""
        self._checks[f"{gate.name}/{planned.name}"] = {
            "inputs": gate.fingerprint(planned),
            "check": check.as_dict(),
        }
        self.save()

    def save(self) -> None:
        """Writes the file."""
        self._store.write(
            self._path,
            {
                "version": VERSION,
                "run": self.run,
                "started": self.started,
                "checks": self._checks,
                "calls": self.calls,
            },
        )


async def run_gates(
    gates: Sequence[Gate],
    state: State,
    watcher: Watcher,
    scrub: Callable[[str], str],
    fail_fast: bool = False,
) -> list[GateResult]:
    """Runs all checks that are not finished yet. ``scrub`` takes secrets out of reasons.

    Raises StoreTrouble when the state cannot be written. Cancelled, it leaves a good state file.
    """
    total = sum(len(gate.checks) for gate in gates)
    done = 0
    results: list[GateResult] = []
    unready = ""
    stopped = ""
    for gate in gates:
        checks: list[Check] = []
        resumed = 0
        for planned in gate.checks:
            why_not = (unready if gate.needs_server else "") or stopped
            watcher.began(gate, planned, done, total)
            earlier = state.finished(gate, planned)
            if earlier is not None:
                check = earlier
                resumed += 1
            elif why_not:
                check = skipped(planned.name, why_not)
            else:
                check = await _run(planned, tuple(checks), scrub)
                state.keep(gate, planned, check)
            checks.append(check)
            done += 1
            watcher.ended(gate, check, earlier is not None)
            if planned.name == "ready_endpoint" and check.status is Status.FAILED:
                unready = "not run: the server is not ready"
        results.append(GateResult(gate.number, gate.name, tuple(checks), resumed))
        if fail_fast and results[-1].status is Status.FAILED:
            stopped = f"not run: {gate.name} failed"
    return results


async def _run(planned: Planned, before: tuple[Check, ...], scrub: Callable[[str], str]) -> Check:
    began = time.monotonic()
    try:
        check = await planned.run(before)
    except asyncio.CancelledError:
        raise
    except Exception as error:
        # A gate must not end in a traceback; what was not foreseen is a failed check that says so.
        check = failed(
            planned.name, f"could not be finished ({type(error).__name__})", answered=False
        )
    seconds = time.monotonic() - began
    clean = Check(
        check.name,
        check.status,
        scrub(check.reason),
        {n: scrub(v) if isinstance(v, str) else v for n, v in check.measured.items()},
        check.threshold,
        check.conditions,
        check.answered,
        seconds,
    )
    return clean


async def finish(
    results: Sequence[GateResult],
    subject: Subject,
    wanted: Sequence[Condition],
    rollbacks: Rollbacks,
    state: State,
    path: Mapping[str, Any],
) -> Report:
    """Calls for a rollback if a wanted condition was hit, and closes the report."""
    conditions = hit(results, wanted)
    report = Report(
        state.run, subject, state.started, now(), tuple(results), tuple(conditions), (), path
    )
    if conditions:
        report.deliveries = await rollbacks.call(report.as_dict(), conditions, state)
    report.finished = now()
    return report
