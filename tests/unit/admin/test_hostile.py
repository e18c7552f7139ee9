"""What the admin port does with requests that no client of ours would send."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from extproc.admin import AdminServer, make_app
from extproc.health import Ledger
from extproc.processor import Services
from extproc.signals import Metrics
from extproc.units import Registry, Unit

WORD = b'{"reason": "seen garbage"}'
QUARANTINE = b"/api/units/a/quarantine"
FLAGGER = b"/gates/flagger/a"
DEEP = b'{"reason":' * 6000

Ask = Callable[[bytes], Awaitable[int]]


@pytest.fixture
def services() -> Services:
    return Services(Registry([Unit("a")]), Ledger([Unit("a")]), Metrics())


@pytest.fixture
async def ask(services: Services) -> AsyncIterator[Ask]:
    server = AdminServer(make_app(services, lambda: True), "127.0.0.1:0")
    await server.start()

    async def send(request: bytes) -> int:
        """The status of the answer to these very bytes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request)
        await writer.drain()
        line = await asyncio.wait_for(reader.readline(), 10)
        writer.close()
        return int(line.split()[1])

    yield send
    await server.stop()


def http(
    path: bytes = QUARANTINE,
    body: bytes = WORD,
    method: bytes = b"POST",
    kind: bytes = b"application/json",
    host: bytes = b"127.0.0.1",
    **headers: bytes,
) -> bytes:
    lines = [
        method + b" " + path + b" HTTP/1.1",
        b"Host: " + host,
        b"Connection: close",
        b"Content-Type: " + kind,
        b"Content-Length: %d" % len(body),
        *(name.replace("_", "-").encode() + b": " + value for name, value in headers.items()),
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


REFUSED = {
    "no JSON without a bottom": (http(body=DEEP), 400),
    "no JSON without a bottom, to a gate": (http(FLAGGER, DEEP), 400),
    "half a character": (http(body=b'{"reason": "\\ud800"}'), 400),
    "half a character in a name": (http(body=b'{"reason": "x", "by": "\\udc00"}'), 400),
    "bytes that are no text": (http(body=b'{"reason": "\xff"}'), 400),
    "a number of thousands of digits": (http(body=b'{"reason": ' + b"9" * 5000 + b"}"), 400),
    "a time of hundreds of digits": (
        http(b"/api/units/a/verification", b'{"reason": "x", "until": ' + b"9" * 400 + b"}"),
        400,
    ),
    "a value of hundreds of digits": (
        http(
            b"/api/units/a/probes",
            b'{"reason": "x", "failed": 1, "findings":'
            b'[{"detector": "d", "reason": "r", "value": ' + b"9" * 400 + b"}]}",
        ),
        400,
    ),
    "a body too large": (http(body=b'{"reason": "' + b"x" * 70_000 + b'"}'), 413),
    "a bomb": (
        http(body=gzip.compress(b'{"reason": "' + bytes(32 << 20)), Content_Encoding=b"gzip"),
        413,
    ),
    "gzip that is none": (http(body=b"xx", Content_Encoding=b"gzip"), 400),
    "a form": (http(body=b"reason=x", kind=b"application/x-www-form-urlencoded"), 415),
    "a host without an end": (http(host=b"[::1"), 403),
    "a host in brackets": (http(host=b"[evil.example]"), 403),
    "a host behind a user": (http(host=b"evil.example@127.0.0.1"), 403),
    "a host before a path": (http(host=b"127.0.0.1/.evil.example"), 403),
    "a host before a query": (http(host=b"127.0.0.1?.evil.example"), 403),
    "a host before a fragment": (http(host=b"127.0.0.1#.evil.example"), 403),
    "no host": (http(host=b""), 403),
    "two hosts": (http(HOST=b"evil.example"), 400),
    "the host of the target": (http(b"http://evil.example" + QUARANTINE), 403),
    "an origin of none": (http(Origin=b"null"), 403),
    "an origin without an end": (http(Origin=b"http://["), 403),
    "two origins": (http(Origin=b"http://127.0.0.1", ORIGIN=b"http://evil.example"), 403),
    "two lengths": (http(CONTENT_LENGTH=b"3"), 400),
    "a length and chunks": (http(Transfer_Encoding=b"chunked"), 400),
    "another path to the same": (http(b"/%61pi/units/a/quarantine", host=b"evil.example"), 403),
    "dots": (http(b"/x/../api/units/a/quarantine", host=b"evil.example"), 404),
    "a file": (http(b"/../../etc/passwd", method=b"GET"), 404),
    "a file behind an asset": (http(b"/status.css/..%2f..%2fapp.py", method=b"GET"), 404),
    "a unit with a line break": (http(b"/api/units/%0d%0aX:1", method=b"GET"), 404),
    "a gate for digits without end": (
        http(FLAGGER, b'{"metadata": {"min_responses": "' + b"9" * 5000 + b'"}}'),
        403,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_it_is_refused_and_changes_nothing(
    ask: Ask, services: Services, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    request, status = REFUSED[name]
    with caplog.at_level(logging.ERROR):
        assert await ask(request) == status
    assert services.ledger.held("a") is None
    assert not [record for record in caplog.records if record.exc_info and status != 400]


async def test_what_is_right_is_taken(ask: Ask, services: Services) -> None:
    assert await ask(http()) == 200
    assert services.ledger.held("a") == "seen garbage"


async def test_a_declared_charset_is_no_way_to_an_error(ask: Ask) -> None:
    for charset in (b"bogus", b"hex", b"idna", b"utf-16"):
        assert await ask(http(kind=b"application/json; charset=" + charset)) == 200


async def test_metrics_are_there_in_any_version_that_is_asked_for(ask: Ask) -> None:
    for accept in (
        b"application/openmetrics-text; version=x; escaping=; q=a",
        b"application/openmetrics-text; version=9; q=\xff",
        b"text/plain; version=1.0.0; escaping=bogus",
    ):
        assert await ask(http(b"/metrics", b"", b"GET", Accept=accept)) == 200


async def test_reasons_are_kept_without_what_moves_a_cursor(ask: Ask, services: Services) -> None:
    body = b'{"reason": "a\\u001b[31m\\u0000\\u202e\\u009b b\\n c", "by": "x\\u001b]0;y\\u0007"}'
    assert await ask(http(body=body)) == 200
    held = services.ledger.held("a") or ""
    assert held.isprintable()
    assert held.startswith("a\ufffd[31m")


async def test_a_body_that_does_not_come_is_not_waited_for(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extproc.admin.body.PATIENCE", 0.05)
    assert await ask(http()[: -len(WORD)]) == 408


async def test_a_token_that_is_no_text_is_wrong() -> None:
    services = Services(Registry([Unit("a")]), Ledger([Unit("a")]), Metrics())
    server = AdminServer(make_app(services, lambda: True, False, lambda: b"t0ken"), "127.0.0.1:0")
    await server.start()
    try:
        for given in (b"Bearer \xff\xfe", b"Bearer " + b"x" * 5000, b"\xff", b""):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(http(Authorization=given))
            assert (await reader.readline()).split()[1] == b"401"
            writer.close()
    finally:
        await server.stop()
