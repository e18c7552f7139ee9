"""Outgoing webhooks: every change of state, as JSON, to whoever wants to know.

Each target has a queue and a task of its own: a slow receiver delays nobody else, and records
reach a receiver in their order. Nothing here is awaited by whoever hands a record over.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

import aiohttp

from extproc.health import State
from extproc.health.evidence import Evidence, Subject
from extproc.signals.metrics import Metrics

log = logging.getLogger(__name__)

SIGNATURE = "x-semantic-signature"
TIMESTAMP = "x-semantic-timestamp"
EVENT = "x-semantic-event"
DELIVERY = "x-semantic-delivery"
"""The id of the record: the same in every attempt, so that a receiver can tell repeats."""

BACKOFF = 0.5
"""Seconds before the second attempt at most; it doubles with each further one."""

LONGEST_PAUSE = 60.0
_AGAIN = frozenset({408, 425, 429})
"""Answers besides 5xx that another attempt may change."""


@dataclass(frozen=True, slots=True)
class Target:
    """One receiver. Empty ``states`` and ``units`` take all; ``units`` are ids or patterns.

    ``secret`` is called for each attempt, so that a secret may change while we run; None: unsigned.
    ``timeout`` in seconds an attempt, ``queue`` in records.
    """

    name: str
    url: str
    states: frozenset[State] = frozenset()
    units: tuple[str, ...] = ()
    verdicts: bool = False
    verifications: bool = True
    secret: Callable[[], bytes] | None = None
    timeout: float = 5.0
    attempts: int = 8
    queue: int = 1000

    def wants(self, record: Evidence) -> bool:
        """Whether ``record`` passes the filters."""
        if record.subject is Subject.VERDICT:
            if not self.verdicts:
                return False
        elif record.subject is Subject.VERIFICATION:
            if not self.verifications:
                return False
        elif self.states and record.after not in self.states:
            return False
        return not self.units or any(fnmatchcase(record.unit, unit) for unit in self.units)


def signature(secret: bytes, timestamp: str, body: bytes) -> str:
    """The value of the signature header: HMAC-SHA256 over "timestamp.body"."""
    mac = hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256)
    return f"sha256={mac.hexdigest()}"


def payload(record: Evidence) -> bytes:
    """The body: one line for people, and the record. It holds no text of prompt or response."""
    content = {
        "version": 1,
        "event": record.subject.value,
        "text": _line(record),
        "evidence": record.as_dict(),
    }
    return json.dumps(content, allow_nan=False).encode()


class Webhooks:
    """A sink. ``pause`` gives the seconds before attempt n + 1, given n."""

    def __init__(
        self,
        targets: Iterable[Target],
        metrics: Metrics,
        pause: Callable[[int], float] | None = None,
    ) -> None:
        self._pause = pause or _pause
        self._metrics = metrics
        self._lines = [_Line(target, metrics) for target in targets]
        self._session: aiohttp.ClientSession | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def evidence(self, record: Evidence) -> None:
        """Queues one record for every target that wants it."""
        for line in self._lines:
            if line.target.wants(record):
                line.put(record)

    async def start(self) -> None:
        """Begins to deliver."""
        self._session = aiohttp.ClientSession(
            # Receivers are often outside, behind the proxy that the environment names.
            trust_env=True,
            headers={"User-Agent": "semantic-extproc"},
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self._tasks = [
            asyncio.create_task(self._deliver_all(line, self._session)) for line in self._lines
        ]

    async def stop(self, seconds: float = 5.0) -> None:
        """Delivers what waits, for so many seconds; the rest is dropped, and counted."""
        if self._session is None:
            return
        if waiting := [asyncio.create_task(line.empty.wait()) for line in self._lines]:
            _, late = await asyncio.wait(waiting, timeout=seconds)
            for task in late:
                task.cancel()
        for delivering in self._tasks:
            delivering.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for line in self._lines:
            line.drop_all()
        await self._session.close()

    async def _deliver_all(self, line: _Line, session: aiohttp.ClientSession) -> None:
        while True:
            record = await line.next()
            try:
                outcome = await self._deliver(line.target, record, session)
            except Exception as error:
                log.error("webhook %s: %s", line.target.name, type(error).__name__)
                outcome = "failed"
            self._metrics.webhooks.labels(line.target.name, outcome).inc()
            line.done()

    async def _deliver(
        self, target: Target, record: Evidence, session: aiohttp.ClientSession
    ) -> str:
        body = payload(record)
        attempt = 1
        while True:
            result = await _attempt(target, record, body, session)
            if not result.problem:
                return "delivered"
            if not result.again or attempt >= target.attempts:
                # Never the URL: it may be a secret itself.
                log.error(
                    "webhook %s gave up after attempt %d: %s",
                    target.name,
                    attempt,
                    result.problem,
                    extra={"evidence": record.id, "target": target.name},
                )
                return "failed"
            self._metrics.webhooks.labels(target.name, "retried").inc()
            await asyncio.sleep(max(result.wait, self._pause(attempt)))
            attempt += 1


class _Result(NamedTuple):
    """Of one attempt: what went wrong, "" if nothing; whether another may go better; and the
    seconds that the receiver asked for."""

    problem: str = ""
    again: bool = False
    wait: float = 0.0


async def _attempt(
    target: Target, record: Evidence, body: bytes, session: aiohttp.ClientSession
) -> _Result:
    headers = {
        "Content-Type": "application/json",
        EVENT: record.subject.value,
        DELIVERY: record.id,
    }
    if target.secret is not None:
        headers[TIMESTAMP] = str(int(time.time()))
        headers[SIGNATURE] = signature(target.secret(), headers[TIMESTAMP], body)
    try:
        async with session.post(
            target.url,
            data=body,
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=target.timeout),
            allow_redirects=False,  # a signed record goes where the operator said, no further
        ) as answer:
            status = answer.status
            wait = _seconds(answer.headers.get("Retry-After", ""))
    except TimeoutError:
        return _Result(f"no answer within {target.timeout:g} s", True)
    except aiohttp.InvalidURL:
        return _Result("the URL cannot be used")
    except (aiohttp.ClientError, OSError) as error:
        return _Result(type(error).__name__, True)
    if 200 <= status < 300:
        return _Result()
    return _Result(f"HTTP {status}", status >= 500 or status in _AGAIN, wait)


class _Line:
    """The records that wait for one target. ``empty`` is set while none does."""

    def __init__(self, target: Target, metrics: Metrics) -> None:
        self.target = target
        self.empty = asyncio.Event()
        self.empty.set()
        self._records: deque[Evidence] = deque()
        self._arrived = asyncio.Event()
        self._length = metrics.webhook_queue.labels(target.name)
        self._dropped = metrics.webhooks.labels(target.name, "dropped")
        self._busy = False

    def put(self, record: Evidence) -> None:
        if len(self._records) >= self.target.queue:
            # The newest says what is so; the oldest, what was.
            self._records.popleft()
            self._dropped.inc()
        self._records.append(record)
        self._length.set(len(self._records))
        self.empty.clear()
        self._arrived.set()

    async def next(self) -> Evidence:
        while not self._records:
            self._arrived.clear()
            await self._arrived.wait()
        self._busy = True
        record = self._records.popleft()
        self._length.set(len(self._records))
        return record

    def done(self) -> None:
        self._busy = False
        if not self._records:
            self.empty.set()

    def drop_all(self) -> None:
        left = len(self._records) + self._busy
        if left:
            self._dropped.inc(left)
            log.error("webhook %s: %d records were not delivered", self.target.name, left)
        self._records.clear()
        self._length.set(0)


def _pause(attempt: int) -> float:
    # Jitter: many sidecars that lost one receiver do not come back all at once.
    most = min(LONGEST_PAUSE, BACKOFF * 2.0 ** (attempt - 1))
    return random.uniform(most / 2, most)


def _seconds(retry_after: str) -> float:
    return min(float(retry_after), LONGEST_PAUSE) if retry_after.isdecimal() else 0.0


def _line(record: Evidence) -> str:
    if record.subject is Subject.VERDICT:
        found = ", ".join(finding.name for finding in record.findings)
        return f"unit {record.unit}: a {record.verdict.value} response ({found or 'no finding'})"
    if record.subject is Subject.VERIFICATION:
        return f"unit {record.unit}: release {record.release} as a fallback is {record.cause}"
    where = [] if record.context in ("", "*") else [f"class {record.context}"]
    where += [] if record.host in ("", "*") else [f"host {record.host}"]
    place = f" ({', '.join(where)})" if where else ""
    before = record.before.value if record.before else "?"
    after = record.after.value if record.after else "?"
    how = f"went from {before} to {after}" if before != after else f"stays in {after}"
    return f"unit {record.unit}{place} {how}: {record.cause}"
