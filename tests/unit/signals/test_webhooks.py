"""Webhooks, delivered to real HTTP servers."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from extproc.detect import Finding, Kind
from extproc.health import State
from extproc.health.evidence import Evidence, Subject
from extproc.signals import Metrics
from extproc.signals.secret import SecretFile
from extproc.signals.webhooks import Target, Webhooks, payload, signature
from tests.waiting import until

DOCS = Path(__file__).resolve().parents[3] / "docs"
SECRET = b"a secret of the tests"


def change(id: str = "1", unit: str = "a", after: State = State.QUARANTINE) -> Evidence:
    return Evidence(
        id,
        Subject.STATE,
        1.5,
        unit,
        "r1",
        "short",
        "*",
        Kind.CORRUPT,
        (Finding("repetition", "period", float("inf"), 16, shape='"!" x 31'),),
        before=State.PASS,
        after=after,
        cause="alarmed",
        e_value=12000.0,
    )


VERDICT = Evidence("v", Subject.VERDICT, 1.5, "a", "r1", "short", "h", Kind.CORRUPT)


class Receiver:
    """Answers with ``statuses`` in turn, then with 204; keeps what it got."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.headers: dict[str, str] = {}
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.hold: asyncio.Event | None = None
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.got.append(({k.lower(): v for k, v in request.headers.items()}, body))
        if self.hold is not None:
            await self.hold.wait()
        status = self.statuses.pop(0) if self.statuses else 204
        return web.Response(status=status, headers=self.headers)

    @property
    def ids(self) -> list[str]:
        return [json.loads(body)["evidence"]["id"] for _, body in self.got]


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    made = Receiver()
    app = web.Application()
    app.router.add_post("/hook", made.handle)
    async with TestServer(app) as server:
        made.url = str(server.make_url("/hook"))
        yield made
        if made.hold is not None:
            made.hold.set()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


Start = Callable[..., Awaitable[Webhooks]]


@pytest.fixture
async def start(metrics: Metrics) -> AsyncIterator[Start]:
    running: list[Webhooks] = []

    async def made(*targets: Target, pause: float = 0.01) -> Webhooks:
        webhooks = Webhooks(targets, metrics, lambda attempt: pause)
        await webhooks.start()
        running.append(webhooks)
        return webhooks

    yield made
    for webhooks in running:
        await webhooks.stop(0)


def count(metrics: Metrics, outcome: str, target: str = "t") -> float:
    labels = {"target": target, "outcome": outcome}
    return metrics.registry.get_sample_value("semantic_extproc_webhooks_total", labels) or 0


def test_what_is_said_of_fallbacks_is_wanted_whatever_states_are() -> None:
    lapsed = replace(change(), subject=Subject.VERIFICATION, before=None, after=None)
    lapsed = replace(lapsed, cause="lapsed: its time is over")
    only = frozenset({State.QUARANTINE})
    assert Target("t", "http://x", states=only).wants(lapsed)
    assert not Target("t", "http://x", verifications=False).wants(lapsed)
    line = json.loads(payload(lapsed))["text"]
    assert line.endswith("as a fallback is lapsed: its time is over")


async def test_a_change_arrives_as_json_that_any_parser_takes(
    receiver: Receiver, start: Start
) -> None:
    webhooks = await start(Target("t", receiver.url))
    webhooks.evidence(change())
    await until(lambda: bool(receiver.got))
    ((headers, body),) = receiver.got
    assert headers["content-type"] == "application/json"
    assert headers["x-semantic-event"] == "state"
    assert headers["x-semantic-delivery"] == "1"
    assert "x-semantic-signature" not in headers

    def never(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    content = json.loads(body, parse_constant=never)
    assert content["text"] == "unit a (class short) went from pass to quarantine: alarmed"
    evidence = content["evidence"]
    assert (evidence["before"], evidence["after"]) == ("pass", "quarantine")
    assert evidence["findings"][0]["value"] == "Infinity"


async def test_the_signature_covers_time_and_body(receiver: Receiver, start: Start) -> None:
    webhooks = await start(Target("t", receiver.url, secret=lambda: SECRET))
    webhooks.evidence(change())
    await until(lambda: bool(receiver.got))
    ((headers, body),) = receiver.got
    stamp = headers["x-semantic-timestamp"]
    assert abs(time.time() - int(stamp)) < 60
    assert headers["x-semantic-signature"] == signature(SECRET, stamp, body)
    assert headers["x-semantic-signature"] != signature(SECRET, stamp, body + b" ")
    assert headers["x-semantic-signature"] != signature(SECRET, str(int(stamp) + 1), body)


async def test_the_documented_check_of_a_signature_takes_it_and_nothing_else(
    receiver: Receiver, start: Start
) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (DOCS / "signals.md").read_text(), re.S)
    found: dict[str, Any] = {}
    exec(block, found)
    verify = found["verify"]
    webhooks = await start(Target("t", receiver.url, secret=lambda: SECRET))
    webhooks.evidence(change())
    await until(lambda: bool(receiver.got))
    ((headers, body),) = receiver.got
    assert verify(SECRET, headers, body)
    assert not verify(b"another", headers, body)
    assert not verify(SECRET, headers, body.replace(b"quarantine", b"pass"))
    old = str(int(headers["x-semantic-timestamp"]) - 3600)
    signed = {"x-semantic-timestamp": old, "x-semantic-signature": signature(SECRET, old, body)}
    assert not verify(SECRET, signed, body)


async def test_a_receiver_that_fails_is_asked_again_and_gets_the_same_record(
    receiver: Receiver, start: Start, metrics: Metrics
) -> None:
    receiver.statuses = [503, 429, 408]
    webhooks = await start(Target("t", receiver.url))
    webhooks.evidence(change())
    await until(lambda: count(metrics, "delivered") == 1)
    assert receiver.ids == ["1"] * 4
    assert count(metrics, "retried") == 3


@pytest.mark.parametrize("status", [400, 401, 404, 410, 301])
async def test_an_answer_that_will_not_change_is_taken(
    receiver: Receiver, start: Start, metrics: Metrics, status: int
) -> None:
    receiver.statuses = [status]
    receiver.headers = {"Location": receiver.url}
    webhooks = await start(Target("t", receiver.url))
    webhooks.evidence(change())
    await until(lambda: count(metrics, "failed") == 1)
    assert len(receiver.got) == 1


async def test_attempts_are_bounded_and_the_next_record_goes_on(
    receiver: Receiver, start: Start, metrics: Metrics
) -> None:
    receiver.statuses = [500] * 3
    webhooks = await start(Target("t", receiver.url, attempts=3))
    webhooks.evidence(change("1"))
    webhooks.evidence(change("2"))
    await until(lambda: count(metrics, "delivered") == 1)
    assert receiver.ids == ["1", "1", "1", "2"]
    assert count(metrics, "failed") == 1


async def test_a_receiver_that_hangs_is_left_and_delays_no_other(
    receiver: Receiver, start: Start, metrics: Metrics
) -> None:
    receiver.hold = asyncio.Event()
    other = Receiver()
    app = web.Application()
    app.router.add_post("/hook", other.handle)
    async with TestServer(app) as server:
        url = str(server.make_url("/hook"))
        webhooks = await start(
            Target("slow", receiver.url, timeout=0.2, attempts=1), Target("t", url)
        )
        webhooks.evidence(change())
        await until(lambda: count(metrics, "delivered") == 1)
        await until(lambda: count(metrics, "failed", "slow") == 1)


async def test_nobody_listening_is_a_failure_like_another(start: Start, metrics: Metrics) -> None:
    webhooks = await start(Target("t", "http://127.0.0.1:1/", attempts=2))
    webhooks.evidence(change())
    await until(lambda: count(metrics, "failed") == 1)
    assert count(metrics, "retried") == 1


async def test_a_full_queue_drops_the_oldest(
    receiver: Receiver, start: Start, metrics: Metrics
) -> None:
    receiver.hold = asyncio.Event()
    webhooks = await start(Target("t", receiver.url, queue=2))
    webhooks.evidence(change("1"))
    await until(lambda: len(receiver.got) == 1)
    for id in "2345":
        webhooks.evidence(change(id))
    assert count(metrics, "dropped") == 2
    receiver.hold.set()
    await until(lambda: count(metrics, "delivered") == 3)
    assert receiver.ids == ["1", "4", "5"]


async def test_filters_choose_by_state_unit_and_subject(receiver: Receiver, start: Start) -> None:
    webhooks = await start(
        Target(
            "t", receiver.url, frozenset({State.QUARANTINE, State.PASS}), ("llama-*", "b"), False
        )
    )
    for id, unit, after in [
        ("1", "llama-8b", State.QUARANTINE),
        ("2", "llama-8b", State.OBSERVE),
        ("3", "a", State.QUARANTINE),
        ("4", "b", State.PASS),
    ]:
        webhooks.evidence(change(id, unit, after))
    webhooks.evidence(VERDICT)
    webhooks.evidence(change("last", "b"))
    await until(lambda: "last" in receiver.ids)
    assert receiver.ids == ["1", "4", "last"]


async def test_verdicts_are_sent_to_those_who_want_them(receiver: Receiver, start: Start) -> None:
    webhooks = await start(Target("t", receiver.url, frozenset({State.QUARANTINE}), verdicts=True))
    webhooks.evidence(VERDICT)
    await until(lambda: bool(receiver.got))
    assert receiver.got[0][0]["x-semantic-event"] == "verdict"


async def test_what_waits_is_delivered_before_the_end(
    receiver: Receiver, start: Start, metrics: Metrics
) -> None:
    receiver.statuses = [503]
    webhooks = await start(Target("t", receiver.url))
    for id in "123":
        webhooks.evidence(change(id))
    await webhooks.stop(10)
    assert receiver.ids == ["1", "1", "2", "3"]
    assert count(metrics, "delivered") == 3
    assert count(metrics, "dropped") == 0


async def test_the_end_does_not_wait_for_ever(
    receiver: Receiver, start: Start, metrics: Metrics
) -> None:
    receiver.hold = asyncio.Event()
    webhooks = await start(Target("t", receiver.url, timeout=60))
    for id in "123":
        webhooks.evidence(change(id))
    await until(lambda: len(receiver.got) == 1)
    async with asyncio.timeout(10):
        await webhooks.stop(0.1)
    assert count(metrics, "dropped") == 3


async def test_neither_url_nor_secret_is_logged(
    start: Start, metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    url = "http://user:word@127.0.0.1:1/token-of-mine"
    webhooks = await start(Target("t", url, attempts=1, secret=lambda: SECRET))
    webhooks.evidence(change())
    await until(lambda: count(metrics, "failed") == 1)
    text = " ".join(str(vars(record)) for record in caplog.records)
    assert "webhook t gave up" in caplog.text
    assert "token-of-mine" not in text
    assert "word@" not in text
    assert SECRET.decode() not in text


def test_a_secret_file_may_be_replaced_and_may_vanish(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"one\n")
    secret = SecretFile(path)
    assert secret() == b"one"
    path.write_bytes(b"two\n")
    assert secret() == b"two"
    path.write_bytes(b"")
    assert secret() == b"two"
    path.unlink()
    assert secret() == b"two"


def test_the_body_is_the_record_and_no_more() -> None:
    content: dict[str, Any] = json.loads(payload(VERDICT))
    assert set(content) == {"version", "event", "text", "evidence"}
    assert content["evidence"] == VERDICT.as_dict() | {"findings": []}
