"""The call for a rollback: a notice to people, and the deployment system's command or URL.

Each receiver is called at most once for one run and one set of conditions, also when the run is
resumed: before a call is made, the state file says that it is being made. A call that was cut off
is therefore not repeated (a second ``undo`` would redo the release); the report says so. Only a
connection that was never made is tried again.
"""

from __future__ import annotations

import asyncio
import json
import os
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp

from extproc.gates.conditions import Condition
from extproc.gates.endpoint import is_loopback
from extproc.gates.settings import Rollback

CONNECTS = 3
"""Tries to connect to a URL; nothing was delivered by a try that failed."""

PAUSE = 0.5
"""Seconds before the second try; twice that before the third."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """How one call came out. ``receiver``: "webhook", "command" or "url"; never an address, which
    may be a secret itself."""

    receiver: str
    outcome: str
    """``delivered``, ``failed``, ``delivered earlier``, ``failed earlier``, ``unknown`` (a run
    before this one was cut off while it called) or ``off`` (auto_rollback is false)."""

    reason: str = ""

    def as_dict(self) -> dict[str, str]:
        """JSON values only."""
        return {"receiver": self.receiver, "outcome": self.outcome, "reason": self.reason}


class Calls(Protocol):
    """What remembers calls: by condition set, receiver -> entry."""

    run: str
    calls: dict[str, dict[str, Any]]

    def save(self) -> None:
        """Makes it durable. Raises StoreTrouble."""


class Rollbacks:
    """The receivers of ``settings``. ``hidden``: environment variables that a command must not
    inherit: keys of the endpoints."""

    def __init__(self, settings: Rollback, hidden: Iterable[str] = ()) -> None:
        self._settings = settings
        self._hidden = frozenset(hidden)

    async def call(
        self, report: Mapping[str, Any], conditions: Sequence[Condition], remembered: Calls
    ) -> tuple[Delivery, ...]:
        """Calls everyone who has not been called for these conditions."""
        settings = self._settings
        names = [condition.value for condition in conditions]
        body = json.dumps(payload(report, names, settings.auto_rollback), allow_nan=False).encode()
        receivers: list[tuple[str, Callable[[], Awaitable[str]]]] = []
        if settings.notify_webhook:
            receivers.append(("webhook", lambda: self._post(settings.notify_webhook, body)))
        deliveries: list[Delivery] = []
        deploying: list[tuple[str, Callable[[], Awaitable[str]]]] = []
        if settings.command:
            deploying.append(("command", lambda: self._command(report, names, body)))
        if settings.url:
            deploying.append(("url", lambda: self._post(settings.url, body)))
        if settings.auto_rollback:
            # The deployment system first: people can wait a second longer than traffic.
            receivers = [*deploying, *receivers]
        else:
            deliveries = [
                Delivery(receiver, "off", "auto_rollback is false") for receiver, _ in deploying
            ]
        known = remembered.calls.setdefault(",".join(sorted(names)), {})
        for receiver, send in receivers:
            if receiver in known:
                deliveries.append(_earlier(receiver, known[receiver]))
                continue
            known[receiver] = {"outcome": "calling"}
            remembered.save()
            problem = await send()
            outcome = "failed" if problem else "delivered"
            known[receiver] = {"outcome": outcome, "reason": problem}
            remembered.save()
            deliveries.append(Delivery(receiver, outcome, problem))
        return tuple(deliveries)

    async def _post(self, url: str, body: bytes) -> str:
        """Why it was not delivered, "" if it was."""
        timeout = aiohttp.ClientTimeout(total=self._settings.timeout_sec)
        try:
            async with aiohttp.ClientSession(
                # Receivers are often outside, behind the proxy that the environment names.
                trust_env=not is_loopback(url),
                headers={"User-Agent": "semantic-extproc", "Content-Type": "application/json"},
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=timeout,
            ) as session:
                for attempt in range(1, CONNECTS + 1):
                    try:
                        async with session.post(url, data=body, allow_redirects=False) as answer:
                            accepted = 200 <= answer.status < 300
                            return "" if accepted else f"it answered HTTP {answer.status}"
                    except aiohttp.ClientConnectorError:
                        if attempt == CONNECTS:
                            return f"no connection after {CONNECTS} tries"
                        await asyncio.sleep(PAUSE * attempt)
        except TimeoutError:
            return f"no answer within {self._settings.timeout_sec:g} s"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return type(error).__name__
        return "not sent"

    async def _command(self, report: Mapping[str, Any], names: list[str], body: bytes) -> str:
        settings = self._settings
        environment = {
            **{name: value for name, value in os.environ.items() if name not in self._hidden},
            "SEMANTIC_GATE_RUN": str(report["run"]),
            "SEMANTIC_GATE_RELEASE": str(report["release"]),
            "SEMANTIC_GATE_CONDITIONS": ",".join(names),
        }
        try:
            process = await asyncio.create_subprocess_exec(
                *settings.command,
                stdin=PIPE,
                stdout=DEVNULL,
                stderr=DEVNULL,
                env=environment,
                start_new_session=True,  # it, and what it starts, is ended as one
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            return f"it could not be started: {reason}"
        try:
            async with asyncio.timeout(settings.timeout_sec):
                await process.communicate(body)
        except TimeoutError:
            return f"it had not ended after {settings.timeout_sec:g} s, and was killed"
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, 9)
                await process.wait()
        return f"it ended with exit code {process.returncode}" if process.returncode else ""


def payload(
    report: Mapping[str, Any], conditions: Sequence[str], automatic: bool
) -> dict[str, Any]:
    """What receivers get: one line for people (``text``, as chat systems read it), the conditions,
    and every check that failed."""
    failed = [
        {
            "gate": gate["name"],
            "check": check["name"],
            "reason": check["reason"],
            "measured": check["measured"],
            "threshold": check["threshold"],
            "conditions": check["conditions"],
        }
        for gate in report["gates"]
        for check in gate["checks"]
        if check["status"] == "failed"
    ]
    return {
        "version": 1,
        "event": "rollback",
        "text": f"release {report['release']} of {report['model'] or 'the model'} must be rolled "
        f"back: {', '.join(conditions)}",
        "run": report["run"],
        "release": report["release"],
        "model": report["model"],
        "candidate": report["candidate"],
        "baseline": report["baseline"],
        "conditions": list(conditions),
        "auto_rollback": automatic,
        "failed_checks": failed,
    }


def _earlier(receiver: str, entry: Mapping[str, Any]) -> Delivery:
    outcome = str(entry.get("outcome", ""))
    if outcome == "calling":
        return Delivery(
            receiver,
            "unknown",
            "the run was cut off while it called; look there, it is not called twice",
        )
    return Delivery(receiver, f"{outcome} earlier", str(entry.get("reason", "")))
