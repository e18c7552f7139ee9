"""What all streams of one sidecar share."""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from extproc.detect import Catalogue, Kind, make_catalogue
from extproc.health import (
    ALL,
    Change,
    Evidence,
    Ids,
    Ledger,
    Limiter,
    Probes,
    Response,
    State,
    Subject,
)
from extproc.health.echoes import LEAST
from extproc.health.outcomes import Outcomes
from extproc.health.sampling import Sampler
from extproc.processor.hold import HoldPolicy
from extproc.signals import Metrics
from extproc.signals.sink import Sink
from extproc.units import ContextClasses, Registry
from extproc.wire import Limits, Router

log = logging.getLogger(__name__)


def _told_at_once(record: Evidence) -> bool:
    return False


def _nothing_quoted(record: Evidence, judged: str) -> Evidence:
    return record


async def _nothing_kept() -> bool:
    return False


def _unprobed(unit: str) -> dict[str, Any] | None:
    return None


@dataclass(slots=True)
class Services:
    """The rooms that a stream calls, put together by whoever starts the sidecar."""

    registry: Registry
    ledger: Ledger
    metrics: Metrics
    contexts: ContextClasses = field(default_factory=ContextClasses)
    router: Router = field(default_factory=Router)
    limits: Limits = field(default_factory=Limits)
    hold: HoldPolicy = field(default_factory=HoldPolicy)
    sampler: Sampler = field(default_factory=Sampler)
    client_attributes: tuple[str, ...] = ()
    """Attributes that tell who asked, best first."""

    trusted_headers: Mapping[str, str] = field(default_factory=dict)
    """Response headers that tell ``unit`` and ``release``, by these names; none by default."""

    terminate: bool = False
    """Whether a stream that turns corrupt after its release is ended in band."""

    catalogue: Catalogue = field(default_factory=make_catalogue)
    catalogues: Mapping[str, Catalogue] = field(default_factory=dict)
    """Catalogues of units with a policy of their own."""

    clock: Callable[[], float] = time.time
    sinks: list[Sink] = field(default_factory=list)
    """Where records of corrupt verdicts and changes of state go."""

    heralds: list[Sink] = field(default_factory=list)
    """Those that tell people: of what the whole fleet shares, once."""

    keeps_back: Callable[[Evidence], bool] = _told_at_once
    """Whether people are told later (by ``tell``), or by another sidecar."""

    keep: Callable[[], Awaitable[bool]] = _nothing_kept
    """Makes durable what is in the book; False when it could not be done."""

    components: dict[str, Callable[[], str]] = field(default_factory=dict)
    """What else runs, and how it is."""

    probe_summary: Callable[[str], dict[str, Any] | None] = _unprobed
    """How a unit's active probes came out; None for one that is not probed."""

    outcomes: Outcomes = field(default_factory=Outcomes)
    """How both answers to mirrored requests came out."""

    quote: Callable[[Evidence, str], Evidence] = _nothing_quoted
    """Adds to a record what may be kept of the text that was judged."""

    ids: Ids = field(default_factory=lambda: Ids(os.urandom(4).hex()))
    limiter: Limiter = field(default_factory=Limiter)
    salt: bytes = field(default_factory=lambda: os.urandom(16))
    """Of this process alone: a hash of a client tells nobody who the client was."""

    def source(self, client: str) -> str:
        """What stands for a client in the book; "" for an unknown one."""
        if not client:
            return ""
        return self._hash(client)

    def answer(self, judged: str) -> str:
        """What stands for a long text in the book; "" for a short one."""
        return self._hash(judged) if len(judged) >= LEAST else ""

    def _hash(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(data, digest_size=8, key=self.salt).hexdigest()

    def state(self, unit: str, context: str) -> State:
        """The state of a unit in one context class."""
        return self.ledger.state(unit, context)

    def record(self, response: Response, judged: str = "") -> None:
        """Takes a judged response into the book, and says what that changed. ``judged``: the end of
        the text that proved it corrupt; the record gets of it what ``quote`` lets through."""
        self.metrics.response(response)
        changes = self.ledger.record(response)
        self.outcomes.take(response)
        corrupt = response.kind is Kind.CORRUPT
        wanted = self.sinks or self.heralds
        if corrupt and wanted and self.limiter.allows(response.unit, response.at):
            self._send(self.quote(self._evidence(Subject.VERDICT, response), judged))
        self.announce(changes)

    def probed(self, probes: Probes) -> None:
        """Takes a run of active probes into the book; failed ones are kept as evidence whatever
        they change. Raises ValueError where the book does."""
        changes = self.ledger.probed(probes)
        if probes.failed:
            failed = Response(
                probes.unit, probes.release, probes.context, probes.host, Kind.CORRUPT,
                probes.findings, "", probes.at,
            )  # fmt: skip
            told = f"probes: {probes.failed} of {probes.failed + probes.passed} failed; "
            self._send(replace(self._evidence(Subject.VERDICT, failed), cause=told + probes.cause))
        self.announce(changes)

    def tell(self, record: Evidence) -> None:
        """Tells people of a record."""
        for herald in self.heralds:
            herald.evidence(record.unquoted())

    def began_well(self, request_id: str, unit: str) -> None:
        """A later attempt at a request has begun with ordinary text."""
        self.announce(self.ledger.began_well(request_id, unit, self.clock()))

    def tick(self) -> None:
        """Lets the book settle what time has settled. To be called once a second."""
        self.announce(self.ledger.tick(self.clock()))

    def announce(self, changes: list[Change]) -> None:
        """Counts and logs changes of state, and sends them to every sink."""
        for change in changes:
            self.metrics.change(change)
            record = self._of_change(change)
            log.warning(
                _said(change),
                extra={
                    "evidence": record.id,
                    "unit": change.unit,
                    "class": change.context,
                    "host": change.host,
                    "release": change.release,
                    "before": change.before.value,
                    "after": change.after.value,
                    "cause": change.cause,
                    "e_value": change.e_value,
                    "findings": [finding.name for finding in record.findings],
                    "request_id": record.request_id,
                },
            )
            self._send(record)

    def _send(self, record: Evidence) -> None:
        for sink in self.sinks:
            sink.evidence(record)
        if self.heralds and not self.keeps_back(record):
            self.tell(record)

    def _evidence(self, subject: Subject, response: Response) -> Evidence:
        return Evidence(
            id=self.ids.next(response.at),
            subject=subject,
            at=response.at,
            unit=response.unit,
            release=response.release,
            context=response.context,
            host=response.host,
            verdict=response.kind,
            findings=response.findings,
            request_id=response.request_id,
            traceparent=response.traceparent,
            attempt=response.attempt,
        )

    def _of_change(self, change: Change) -> Evidence:
        at = change.at
        nothing = Response("", "", "", "", Kind.UNCHECKED, (), "", at)
        record = self._evidence(change.subject, change.response or nothing)
        return replace(
            record,
            at=at,
            unit=change.unit,
            release=change.release,
            context=change.context,
            host=change.host,
            before=change.before,
            after=change.after,
            cause=change.cause,
            e_value=change.e_value,
        )


def _said(change: Change) -> str:
    if change.subject is Subject.VERIFICATION:
        return f"unit {change.unit}: release {change.release} as a fallback is {change.cause}"
    where = f"host {change.host}" if change.host != ALL else change.context
    return (
        f"unit {change.unit} ({where}) went from {change.before} to {change.after}: {change.cause}"
    )
