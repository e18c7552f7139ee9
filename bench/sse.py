"""Thousands of event streams at a time, as cheaply as Python can: engines that write them, and
clients that read them. Each in a process of its own, so that a soak measures the sidecar.

usage: python -m bench.sse engine PORT RATE
       python -m bench.sse clients PORT STREAMS TOKENS SECONDS RAMP
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections import deque
from functools import lru_cache
from typing import Any

import uvloop

from extproc.demo.recorded import load

TICKS = 50
"""Turns of the engine a second: streams are spread over them."""

CHECKED = 20
"""Of so many streams one is compared to the byte; of the others the end and the status."""

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@lru_cache(maxsize=64)
def chunks(first: int, tokens: int) -> tuple[bytes, ...]:
    """The events of a stream of ``tokens`` tokens that begins with recorded answer ``first``."""
    answers = load()["healthy"]
    out: list[bytes] = []
    at = first
    while len(out) < tokens:
        pieces = answers[at % len(answers)].pieces
        out += [_event(piece) for piece in pieces[: tokens - len(out)]]
        at += 1
    out.append(_event(None) + b"data: [DONE]\n\n")
    return tuple(out)


def _event(piece: str | None) -> bytes:
    choice = {
        "index": 0,
        "delta": {} if piece is None else {"content": piece},
        "finish_reason": "stop" if piece is None else None,
    }
    event = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(event, separators=(",", ":")).encode() + b"\n\n"


class Engine(asyncio.Protocol):
    """One connection, one stream. ``wheel``: who writes in which turn."""

    def __init__(self, wheel: list[deque[Engine]]) -> None:
        self._wheel = wheel
        self._head = b""
        self._chunks: tuple[bytes, ...] = ()
        self._next = 0
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._chunks or self._transport is None:
            return
        self._head += data
        _, end, body = self._head.partition(b"\r\n\r\n")
        if not end or not body.endswith(b"}"):
            return
        asked = json.loads(body[body.index(b"{") : body.rindex(b"}") + 1])
        self._chunks = chunks(asked["first"], asked["tokens"])
        self._transport.write(HEAD)
        min(self._wheel, key=len).append(self)

    def turn(self) -> bool:
        """Writes the next event. False after the last."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return False
        data = self._chunks[self._next]
        transport.write(b"%x\r\n%s\r\n" % (len(data), data))
        self._next += 1
        if self._next < len(self._chunks):
            return True
        transport.write(b"0\r\n\r\n")
        transport.close()
        return False


async def engine(port: int, rate: float) -> None:
    """Serves until killed: ``rate`` events a second on each stream."""
    loop = asyncio.get_running_loop()
    wheel: list[deque[Engine]] = [deque() for _ in range(max(1, round(TICKS / rate)))]
    await loop.create_server(lambda: Engine(wheel), "127.0.0.1", port, backlog=4096)
    turn, due = 0, loop.time()
    while True:
        due = max(due + 1 / TICKS, loop.time() - 1)
        await asyncio.sleep(due - loop.time())
        now = wheel[turn % len(wheel)]
        turn += 1
        for _ in range(len(now)):
            stream = now.popleft()
            if stream.turn():
                now.append(stream)


class Client(asyncio.Protocol):
    """One request at a time on a connection of its own. ``number`` chooses the answer."""

    def __init__(self, number: int, tokens: int, done: asyncio.Future[str]) -> None:
        self._number = number
        self._tokens = tokens
        self._done = done
        self._checked = number % CHECKED == 0
        self._all = bytearray()
        self._start = b""
        self._end = b""

    def connection_made(self, transport: Any) -> None:
        asked = {"messages": [], "stream": True, "first": self._number % 40, "tokens": self._tokens}
        body = json.dumps(asked).encode()
        transport.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: soak\r\nconnection: close\r\n"
            b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
        )

    def data_received(self, data: bytes) -> None:
        if self._checked:
            self._all += data
        if not self._start:
            self._start = data[:1024]
        self._end = (self._end + data)[-64:]

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_result(self._judge())

    def _judge(self) -> str:
        if not self._start.startswith(b"HTTP/1.1 200"):
            return "status"
        if b"data: [DONE]\n\n" not in self._end or not self._end.endswith(b"\r\n0\r\n\r\n"):
            return "cut"
        if b"x-semantic-unit: unit-" not in self._start:
            return "unread"
        if self._checked:
            wanted = b"".join(chunks(self._number % 40, self._tokens))
            if hashlib.sha256(_unchunked(bytes(self._all))).digest() != (
                hashlib.sha256(wanted).digest()
            ):
                return "changed"
        return "ok"


def _unchunked(response: bytes) -> bytes:
    rest = response.partition(b"\r\n\r\n")[2]
    out = bytearray()
    while True:
        size, _, rest = rest.partition(b"\r\n")
        if not size or size == b"0":
            return bytes(out)
        length = int(size, 16)
        out += rest[:length]
        rest = rest[length + 2 :]


async def clients(port: int, streams: int, tokens: int, seconds: float, ramp: float) -> None:
    """Keeps ``streams`` streams open for ``seconds``, after ``ramp`` seconds in which they are
    begun one by one; then lets them end. Prints a line of JSON each second."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + ramp + seconds
    counts: dict[str, int] = {}
    number = opened = 0

    async def one(place: int) -> None:
        nonlocal number, opened
        await asyncio.sleep(ramp * place / streams)
        while loop.time() < ends:
            number += 1
            done: asyncio.Future[str] = loop.create_future()
            client = Client(number, tokens, done)
            try:
                await loop.create_connection(lambda client=client: client, "127.0.0.1", port)  # type: ignore[misc]
            except OSError:
                counts["refused"] = counts.get("refused", 0) + 1
                await asyncio.sleep(1)
                continue
            opened += 1
            word = await done
            opened -= 1
            counts[word] = counts.get(word, 0) + 1

    async def tell() -> None:
        while True:
            print(json.dumps({"open": opened, "ended": counts}), flush=True)
            await asyncio.sleep(1)

    telling = asyncio.create_task(tell())
    await asyncio.gather(*(one(place) for place in range(streams)))
    telling.cancel()
    print(json.dumps({"open": opened, "ended": counts}), flush=True)


if __name__ == "__main__":
    what, *numbers = sys.argv[1:]
    if what == "engine":
        uvloop.run(engine(int(numbers[0]), float(numbers[1])))
    else:
        port, streams, tokens = map(int, numbers[:3])
        uvloop.run(clients(port, streams, tokens, float(numbers[3]), float(numbers[4])))
