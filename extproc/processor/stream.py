"""The Process RPC: reads Envoy's messages, answers them in order.

Envoy sends the response's body without waiting for the answer to its headers
(``send_body_without_waiting_for_header_response``), so the headers answer can be withheld while
body messages are read; they are then answered together. After that every message is answered
before it is inspected.

Invariant: a stream has one writer at a time. While headers are held the loop only reads, and the
timer may write; whoever reads a message next waits for that writing to end.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import grpc

from extproc.processor import replies
from extproc.processor.asking import Asking
from extproc.processor.exchange import Exchange
from extproc.processor.hold import Release
from extproc.processor.services import Services

log = logging.getLogger(__name__)

SLICE = 16384
"""Bytes of a stream that are read in one go. Envoy hands over up to 1 MiB in one message, once a
slow reader lets it; to read so much takes up to a second, in which every other stream would wait,
and time out."""

BATCH = 16
BATCH_BYTES = 16384
"""Messages, or bytes of them, that are read in one go after the release. Proofs of a stream take 16
to 64 tokens, so a late verdict comes by that much later at most; and each time the code that reads
is come back to, it has left the processor's caches."""

EOF: Any = grpc.aio.EOF  # type: ignore[attr-defined]


class Stream:
    """One RPC: one HTTP exchange in Envoy."""

    __slots__ = (
        "_chunks",
        "_extended",
        "_first_message",
        "_flushing",
        "_held",
        "_last_message",
        "_loop",
        "_opened",
        "_read",
        "_released",
        "_services",
        "_silent",
        "_timer",
        "_write",
    )

    def __init__(self, services: Services, context: Any) -> None:
        self._services = services
        self._read = context.read
        self._write = context.write
        self._loop = asyncio.get_running_loop()
        self._silent = False  # observability mode: Envoy wants no answers
        self._released = False
        self._held = 0  # body messages read and not yet answered
        self._chunks = 0
        self._extended = False  # Envoy was asked to wait longer for the answer to its last message
        self._opened = 0.0
        self._first_message = 0.0
        self._last_message = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Serves the RPC until its end. Cancelled when Envoy resets the stream."""
        exchange = await self._until_headers()
        if exchange is None:
            return
        metrics = self._services.metrics
        metrics.open_streams.inc()
        try:
            if not await self._hold(exchange):
                await self._pass_on(exchange)
        finally:
            if self._timer is not None:
                self._timer.cancel()
            if self._flushing is not None:
                self._flushing.cancel()
            exchange.close()
            metrics.open_streams.dec()
            metrics.chunks.inc(self._chunks)
            metrics.bytes.inc(exchange.received)

    async def _until_headers(self) -> Exchange | None:
        """Answers the request phase. None when there is nothing to inspect."""
        asking = Asking(self._services.limits.body)
        while True:
            message = await self._read()
            if message is EOF:
                return None
            self._silent = message.observability_mode
            kind = message.WhichOneof("request")
            if kind == "response_headers":
                try:
                    return Exchange(self._services, message, asking)
                except Exception:
                    log.exception("response headers could not be read; the response passes")
                    self._services.metrics.errors.labels("headers").inc()
                    return None  # ending the RPC makes Envoy pass the response untouched
            if kind == "request_headers":
                asking.headers(message.request_headers)
                await self._answer(replies.CONTINUE_REQUEST_HEADERS)
            elif kind == "request_body":
                asking.body(message.request_body.body)
                await self._answer(replies.CONTINUE_REQUEST_BODY)
            elif kind == "request_trailers":
                await self._answer(replies.CONTINUE_REQUEST_TRAILERS)
            else:
                log.warning("a body came without headers: set response_header_mode to SEND")
                self._services.metrics.errors.labels("no_headers").inc()
                return None

    async def _hold(self, exchange: Exchange) -> bool:
        """Reads while the beginning could still be a fault. True when nothing is left to read."""
        if not exchange.inspecting:
            await self._release(exchange, Release.UNREADABLE)
            return True  # ending the RPC makes Envoy pass the rest untouched
        if self._silent or not self._services.hold.enabled:
            await self._release(exchange, Release.ORDINARY)
            return False
        self._opened = self._last_message = self._loop.time()
        self._set_timer(exchange)
        while True:
            message = await self._read()
            await self._flushed()
            if message is EOF:
                return True
            if not message.HasField("response_body"):
                if message.HasField("response_trailers"):
                    return await self._trailers(exchange)
                continue
            body = message.response_body
            if self._released:
                return await self._step(exchange, body)
            self._last_message = self._loop.time()
            self._first_message = self._first_message or self._last_message
            if self._extended:  # for this message Envoy waits its own time again
                self._extended = False
                self._set_timer(exchange)
            self._held += 1
            self._chunks += 1
            released = await self._feed(exchange, body.body, body.end_of_stream)
            if released:  # by the timer, which has answered this message as well
                await self._flushed()
                over = body.end_of_stream or not exchange.inspecting
                return over and (body.end_of_stream or await self._farewell(exchange))
            reason = exchange.hold_ends()
            if reason is not None:
                await self._release(exchange, reason)
                return not exchange.inspecting

    async def _pass_on(self, exchange: Exchange) -> None:
        """Answers every message at once, and reads what it held."""
        read, write, waiting = self._read, self._write, exchange.waiting
        at_once = not (self._silent or self._services.terminate)
        size = 0  # of what waits, in bytes
        while True:
            message = await read()
            if message is EOF:
                return
            if message.HasField("response_body"):
                body = message.response_body
                data = body.body
                # Nearly every message of nearly every stream goes this way.
                if at_once and not body.end_of_stream and len(data) <= SLICE:
                    self._chunks += 1
                    await write(replies.CONTINUE_BODY)
                    waiting.append(data)
                    size += len(data)
                    if len(waiting) >= BATCH or size >= BATCH_BYTES:
                        size = 0
                        if exchange.read(False):
                            await self._go_on(exchange)
                        if not exchange.inspecting:
                            await self._farewell(exchange)
                            return
                elif await self._step(exchange, body):
                    return
            elif message.HasField("response_trailers"):
                await self._trailers(exchange)
                return

    async def _step(self, exchange: Exchange, body: Any) -> bool:
        """One body message after the release. True when nothing is left to read."""
        self._chunks += 1
        if self._services.terminate or body.end_of_stream:
            return await self._judge_first(exchange, body)
        if not self._silent:
            await self._write(replies.CONTINUE_BODY)
        await self._feed(exchange, body.body, body.end_of_stream)
        return not exchange.inspecting and await self._farewell(exchange)

    async def _flushed(self) -> None:
        """What the timer writes is written."""
        if self._flushing is not None:
            await self._flushing
            self._flushing = None

    async def _feed(self, exchange: Exchange, data: bytes, ended: bool) -> bool:
        """Reads a body message now; a large one, and a large body that came whole, in portions
        between which others have their turn. True when the timer has ended the hold meanwhile."""
        before = self._released
        if len(data) > SLICE and exchange.streamed:
            *pieces, data = (data[at : at + SLICE] for at in range(0, len(data), SLICE))
            for piece in pieces:
                if exchange.feed(piece, False):
                    await self._go_on(exchange)
                if exchange.inspecting:
                    await asyncio.sleep(0)
        if exchange.feed(data, ended):
            await self._go_on(exchange)
        return self._released is not before

    async def _go_on(self, exchange: Exchange) -> None:
        more = True
        while more:
            await asyncio.sleep(0)
            more = exchange.go_on()

    async def _judge_first(self, exchange: Exchange, body: Any) -> bool:
        """Inspects before answering, because the answer depends on the verdict."""
        await self._feed(exchange, body.body, body.end_of_stream)
        if exchange.inspecting:
            await self._answer(replies.CONTINUE_BODY)
            return False
        if self._services.terminate and exchange.corrupt and exchange.terminable:
            await self._answer(exchange.termination_reply())
            # The cut follows with the next message, so that the error event reaches the client.
            if not body.end_of_stream and await self._read() is not EOF:
                await self._answer(replies.STOP)
        else:
            await self._answer(exchange.last_reply())
        return True

    async def _farewell(self, exchange: Exchange) -> bool:
        """The verdict is final before the end: the next answer carries it, and ends the RPC."""
        exchange.close()  # the book need not wait for that message
        message = await self._read()
        if message is not EOF and message.HasField("response_body"):
            self._chunks += 1
            await self._answer(exchange.last_reply())
        return True

    async def _trailers(self, exchange: Exchange) -> bool:
        """Trailers end a body as well as ``end_of_stream`` does."""
        await self._feed(exchange, b"", True)
        await self._flushed()
        if not self._released:
            await self._release(exchange, exchange.hold_ends() or Release.ENDED)
        await self._answer(replies.CONTINUE_RESPONSE_TRAILERS)
        return True

    async def _answer(self, reply: bytes) -> None:
        if not self._silent:
            await self._write(reply)

    async def _release(self, exchange: Exchange, reason: Release) -> None:
        """Answers the headers and every message held back, in order."""
        self._released = True
        if self._timer is not None:
            self._timer.cancel()
        metrics = self._services.metrics
        metrics.releases.labels(reason.value).inc()
        if self._opened:
            metrics.hold_seconds.observe(self._loop.time() - self._opened)
        await self._answer(exchange.headers_reply(reason))
        for _ in range(self._held - 1):
            await self._answer(replies.CONTINUE_BODY)
        if self._held:
            over = not exchange.inspecting
            await self._answer(exchange.last_reply() if over else replies.CONTINUE_BODY)

    def _set_timer(self, exchange: Exchange) -> None:
        if self._timer is not None:
            self._timer.cancel()
        at = self._hold_until()
        if not self._extended:
            at = min(at, self._last_message + self._services.hold.gap)
        self._timer = self._loop.call_at(at, self._on_timer, exchange)

    def _hold_until(self) -> float:
        policy = self._services.hold
        if not policy.patience:
            return self._opened + policy.deadline
        if not self._first_message:
            return self._opened + policy.patience
        return self._first_message + policy.deadline

    def _on_timer(self, exchange: Exchange) -> None:
        # Messages do not touch the timer; it finds out itself whether it rang too early.
        if self._released:
            return
        now, policy, until = self._loop.time(), self._services.hold, self._hold_until()
        silent = now >= self._last_message + policy.gap
        if now < until and (self._extended or not silent):
            self._set_timer(exchange)
            return
        if now < until and policy.patience:
            self._extended = True
            wait = min(until - now + policy.gap, policy.patience)
            writing = self._answer(replies.more_time(wait))
            self._set_timer(exchange)
        else:
            reason = Release.DEADLINE if now >= until else Release.GAP
            writing = self._release(exchange, reason)
        self._flushing = self._loop.create_task(writing)
        self._flushing.add_done_callback(_seen)


def _seen(task: asyncio.Task[None]) -> None:
    # The stream may be gone before the loop awaits the task; its error is then no news.
    if not task.cancelled():
        task.exception()
