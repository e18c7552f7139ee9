"""A scripted engine: an HTTP/1.1 server that writes the bytes a test wants, when it wants."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from ssl import SSLContext
from types import MappingProxyType


@dataclass
class Request:
    """What a client (here: Envoy) asked."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Reply:
    """Writes one response, chunk by chunk."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.started = False

    async def head(
        self,
        status: int = 200,
        content_type: str = "text/event-stream",
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.started = True
        lines = [f"HTTP/1.1 {status} X", f"content-type: {content_type}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += ["transfer-encoding: chunked", "connection: close", "", ""]
        self._writer.write("\r\n".join(lines).encode())
        await self._writer.drain()

    async def write(self, data: bytes) -> None:
        self._writer.write(b"%x\r\n%s\r\n" % (len(data), data))
        await self._writer.drain()

    async def end(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    def reset(self) -> None:
        """Cuts the connection with a TCP reset."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def json(
        self,
        body: bytes,
        status: int = 200,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """A whole body at once."""
        await self.head(status, "application/json", headers)
        await self.write(body)
        await self.end()

    async def sse(self, pieces: list[bytes], gap: float = 0.0) -> None:
        """An event stream, a piece at a time, ``gap`` seconds apart."""
        await self.head()
        for piece in pieces:
            await self.write(piece)
            if gap:
                await asyncio.sleep(gap)
        await self.end()


Script = Callable[[Request, Reply], Awaitable[None]]


class Upstream:
    """Serves ``script``, which a test may replace at any time. Counts what it saw."""

    def __init__(self, script: Script, tls: SSLContext | None = None) -> None:
        self.script = script
        self._tls = tls
        self.requests = 0
        self.aborted = 0
        self.port = 0
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await _read(reader)
            if request is None:
                return
            self.requests += 1
            await self.script(request, Reply(writer))
        except ConnectionError:
            self.aborted += 1
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.split("\r\n")
    method, path, _ = first.split(" ")
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    body = b""
    if "content-length" in headers:
        body = await reader.readexactly(int(headers["content-length"]))
    elif headers.get("transfer-encoding") == "chunked":
        while size := int(await reader.readline(), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
    return Request(method, path, headers, body)


def event(content: str | None = None, finish: str | None = None, **delta: object) -> bytes:
    """One chat completion chunk."""
    if content is not None:
        delta["content"] = content
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    frame = {"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(frame).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def stream(words: list[str], finish: str = "stop") -> list[bytes]:
    """The pieces of a whole stream."""
    opening = event("", role="assistant")
    return [opening, *(event(word) for word in words), event(finish=finish), DONE]


def completion(content: str, finish: str = "stop", tokens: int = 20) -> bytes:
    """A whole chat completion."""
    message = {"role": "assistant", "content": content}
    return json.dumps(
        {
            "id": "c1",
            "object": "chat.completion",
            "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 9, "completion_tokens": tokens},
        }
    ).encode()


HEALTHY = "The harbour lights went out one after another while the last ferry turned west".split()
HEALTHY_STREAM = stream([" " + word for word in HEALTHY])
HEALTHY_JSON = completion(" ".join(HEALTHY))
OTHER = "Rain had fallen since noon and nobody on the pier expected the boat to come in".split()
OTHER_STREAM = stream([" " + word for word in OTHER])
OTHER_JSON = completion(" ".join(OTHER))
BANG_STREAM = stream(["!"] * 64, "length")
BANG_JSON = completion("!" * 64, "length", 64)


def answers(pieces: list[bytes], whole: bytes, gap: float = 0.0) -> Script:
    """Streams to those who ask for a stream, else answers whole."""

    async def script(request: Request, reply: Reply) -> None:
        if json.loads(request.body or b"{}").get("stream"):
            await reply.sse(pieces, gap)
        else:
            await reply.json(whole)

    return script
