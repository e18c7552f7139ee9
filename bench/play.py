"""Plays streams to an ext_proc server as Envoy does."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import grpc
import uvloop

from bench.messages import headers_message
from bench.servers import Server

PER_CHANNEL = 100
"""Streams of one connection, at most."""

RAMP = 0.0005
"""Seconds from one opening to the next: grpc.aio's client does not open thousands at once."""

METHOD = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"


async def play(
    channel: Any,
    messages: list[bytes],
    delays: list[float] | None = None,
    together: asyncio.Barrier | None = None,
) -> None:
    """One stream, message by message, as Envoy does after the hold: each waits for its answer.
    ``together``: it goes on once all are open."""
    call = channel.stream_stream(METHOD)()
    await call.write(messages[0])
    await call.write(messages[1])
    if together is not None:
        await together.wait()
    owed = 2  # the headers' answer may be held until a few body messages are there
    answered = 0
    for message in messages[2:]:
        await call.write(message)
        owed += 1
        while answered < owed - 4:
            await call.read()
            answered += 1
        if owed > 8:
            started = time.perf_counter()
            while answered < owed:
                await call.read()
                answered += 1
            if delays is not None:
                delays.append(time.perf_counter() - started)
    while answered < owed:
        await call.read()
        answered += 1
    await call.done_writing()
    call.cancel()


def _channels(port: int, streams: int) -> list[Any]:
    """Connections of their own, as Envoy's threads have; one cannot carry thousands of streams."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    count = -(-streams // PER_CHANNEL)
    return [grpc.aio.insecure_channel(f"127.0.0.1:{port}", options) for _ in range(count)]


async def _load(port: int, bodies: list[bytes], streams: int, concurrency: int) -> list[float]:
    messages = [headers_message(), *bodies]
    delays: list[float] = []
    channels = _channels(port, concurrency)
    await asyncio.wait_for(channels[0].channel_ready(), 30)
    gate = asyncio.Semaphore(concurrency)
    together = asyncio.Barrier(streams) if streams == concurrency else None

    async def one(number: int) -> None:
        async with gate:
            if together is not None:
                await asyncio.sleep(number * RAMP)
            await play(channels[number % len(channels)], messages, delays, together)

    await asyncio.gather(*(one(number) for number in range(streams)))
    for channel in channels:
        await channel.close()
    return delays


def load(server: Server, bodies: list[bytes], streams: int, concurrency: int) -> list[float]:
    """Plays ``streams`` streams of ``bodies``; seconds from each message to its answer."""
    return uvloop.run(_load(server.port, bodies, streams, concurrency))


def cost(server: Server, bodies: list[bytes], streams: int, concurrency: int = 16) -> float:
    """Seconds of CPU that the server spends on ``streams`` streams of ``bodies``."""
    before = server.cpu
    load(server, bodies, streams, concurrency)
    return server.cpu - before


async def _open(channels: list[Any], bodies: list[bytes], streams: int) -> list[Any]:
    messages = [headers_message(), *bodies]
    calls = []
    for number in range(streams):
        call = channels[number % len(channels)].stream_stream(METHOD)()
        for message in messages:
            await call.write(message)
        for _ in messages:
            await call.read()
        calls.append(call)
    return calls


def memory(server: Server, bodies: list[bytes], streams: int) -> float:
    """Bytes that one open stream adds once ``bodies`` (without their end) are read."""

    async def measure() -> float:
        before = server.memory
        channels = _channels(server.port, streams)
        calls = await _open(channels, bodies, streams)
        grown = server.memory - before
        for call in calls:
            call.cancel()
        for channel in channels:
            await channel.close()
        return grown / streams

    return uvloop.run(measure())
