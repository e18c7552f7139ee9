"""An HTTP client for OpenAI-compatible servers, whose every answer comes judged.

Rules:
- Only what never reached the server is sent again: a connection that could not be made.
- Redirects are not followed: the key is for the server that was named.
- No more than ``ClientSettings.body_bytes`` of an answer is read.
- A call returns a ``Reply`` or raises a ``ProbeError``; nothing else.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, NoReturn, Self, TypeVar

import aiohttp

from extproc import __version__
from extproc.detect import Catalogue
from extproc.inspection import Exchange, Inspection
from extproc.probes.errors import (
    MESSAGE,
    BadStatus,
    NotJson,
    ProbeError,
    Refused,
    TimedOut,
    Unreachable,
)
from extproc.probes.reply import Reply, Timings, assemble, server_message
from extproc.probes.target import Target
from extproc.wire import Event, Text

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Times in seconds. ``timeout``: of one call with all its attempts, to the last byte.

    ``retries``: of connections, after pauses that double from ``pause``. ``body_bytes``: of an
    answer at most. ``proxies``: whether ``HTTP(S)_PROXY`` and ``NO_PROXY`` are heard.
    """

    timeout: float = 60.0
    connect: float = 5.0
    retries: int = 2
    pause: float = 0.2
    body_bytes: int = 64 << 20
    proxies: bool = False


class Client:
    """One server. To be used as an async context manager; calls may run at the same time.

    Entering raises Misconfigured when the target cannot be used as it is described. ``catalogue``:
    the detectors that judge, all of them by default.
    """

    def __init__(
        self,
        target: Target,
        settings: ClientSettings = ClientSettings(),
        *,
        catalogue: Catalogue | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.target = target
        self.settings = settings
        self._catalogue = catalogue
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None
        self._model = target.model

    def __repr__(self) -> str:
        return f"Client({self.target.base_url!r})"

    async def __aenter__(self) -> Self:
        secure = self._root.startswith("https")
        self.target.key()
        tls = self.target.tls
        context = tls.context() if tls is not None and secure else True
        self._session = aiohttp.ClientSession(
            # A connection for each call: one that the server is about to close (llama.cpp does
            # after a stream) would break a request that must not be sent twice.
            connector=aiohttp.TCPConnector(ssl=context, limit=64, force_close=True),
            headers={"User-Agent": f"semantic-extproc/{__version__}", **self.target.headers},
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=self.settings.proxies,
            auto_decompress=True,
            read_bufsize=1 << 20,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    # -- what is asked --------------------------------------------------------------------------

    async def model(self) -> str:
        """The name that requests carry: the target's, or else the first that is served."""
        if not self._model:
            document = await self.get_json("/v1/models")
            for entry in _list(document, "data"):
                if isinstance(entry, dict) and isinstance(entry.get("id"), str):
                    self._model = entry["id"]
                    break
            else:
                raise ProbeError(f"{self._root}/v1/models lists no model; name one")
        return self._model

    async def chat(
        self, messages: str | Sequence[Mapping[str, Any]], *, stream: bool = False, **fields: Any
    ) -> Reply:
        """``/v1/chat/completions``; a string is one user message. ``fields``: of the request."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        body = {"model": await self.model(), "messages": list(messages), **fields}
        return await self.generate("/v1/chat/completions", body, stream=stream)

    async def complete(
        self, prompt: str | Sequence[int], *, stream: bool = False, **fields: Any
    ) -> Reply:
        """``/v1/completions``."""
        body = {"model": await self.model(), "prompt": prompt, **fields}
        return await self.generate("/v1/completions", body, stream=stream)

    async def embed(self, inputs: Sequence[str], **fields: Any) -> Reply:
        """``/v1/embeddings``."""
        body = {"model": await self.model(), "input": list(inputs), **fields}
        return await self.ask("/v1/embeddings", body)

    async def generate(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        stream: bool = False,
        plain: Mapping[str, Any] | None = None,
    ) -> Reply:
        """A generating request, with the target's own fields, streamed or not."""
        body = {**body, **self.target.extra}
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return await self.ask(path, body, plain=plain)

    async def ask(
        self, path: str, body: Mapping[str, Any], *, plain: Mapping[str, Any] | None = None
    ) -> Reply:
        """POSTs ``body`` to ``path`` under the root, as it is. Raises ProbeError.

        ``plain``: the request that the answer is judged as one to, if not ``body``: what a prompt
        says may excuse repetition. BadStatus and NotJson hold the judged reply.
        """
        content = json.dumps(body).encode()
        known = body if plain is None else plain
        return await self._within(path, lambda: self._judged(path, content, known))

    async def get_json(self, path: str) -> Any:
        """The JSON that GET of ``path`` is answered with. Raises ProbeError."""
        body = await self._within(path, lambda: self._plain("GET", path, None))
        return self._json(path, body)

    async def post_json(self, path: str, content: Mapping[str, Any]) -> Any:
        """The JSON that POST of ``content`` is answered with, not judged. Raises ProbeError."""
        sent = json.dumps(content).encode()
        body = await self._within(path, lambda: self._plain("POST", path, sent))
        return self._json(path, body)

    async def get_text(self, path: str) -> str:
        """The text that GET of ``path`` is answered with. Raises ProbeError."""
        body = await self._within(path, lambda: self._plain("GET", path, None))
        return body.decode(errors="replace")

    # -- how ------------------------------------------------------------------------------------

    @property
    def _root(self) -> str:
        return self.target.root

    def _headers(self, content: bytes | None) -> dict[str, str]:
        headers = {} if content is None else {"Content-Type": "application/json"}
        if key := self.target.key():
            headers["Authorization"] = f"Bearer {key}"
        return headers

    async def _within(self, path: str, call: Callable[[], Awaitable[T]]) -> T:
        """Runs ``call``, again while no connection can be made, and translates what goes wrong."""
        if self._session is None:
            raise RuntimeError("enter the client first: async with Client(target) as client")
        settings = self.settings
        place = f"{self._root}{path}"
        try:
            async with asyncio.timeout(settings.timeout):
                for attempt in range(settings.retries + 1):
                    try:
                        return await call()
                    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
                        final = isinstance(error, aiohttp.ClientConnectorCertificateError)
                        if final or attempt == settings.retries:
                            _no_connection(place, error, settings)
                        await asyncio.sleep(settings.pause * 2**attempt)
        except TimeoutError:
            raise TimedOut(f"{place}: no end of an answer within {settings.timeout:g} s") from None
        except aiohttp.ClientError as error:
            raise Unreachable(f"{place}: the connection broke ({type(error).__name__})") from None
        except (ValueError, OSError) as error:  # a header that cannot be sent, a socket's own error
            raise Unreachable(f"{place}: {type(error).__name__}") from None
        raise AssertionError("unreachable")

    async def _plain(self, method: str, path: str, content: bytes | None) -> bytes:
        async with self._request(method, path, content) as response:
            body = await self._whole(response, path)
            if response.status != 200:
                raise self._bad(path, response, body)
            return body

    async def _judged(
        self,
        path: str,
        content: bytes,
        request: Mapping[str, Any],
    ) -> Reply:
        started = self._clock()
        async with self._request("POST", path, content) as response:
            answered = self._clock() - started
            kind = response.headers.get("Content-Type", "")
            exchange = Exchange(
                path,
                path,
                b"",
                status=response.status,
                headers={"content-type": kind},  # decoded already: no content-encoding
                request_body=request,
            )
            inspection = Inspection(exchange, catalogue=self._catalogue)
            received = bytearray()
            events: list[Event] = []
            first: float | None = None
            async for piece in response.content.iter_any():
                received += piece
                self._bound(received, path)
                fresh = inspection.feed(piece)
                if first is None and any(isinstance(e, Text) and e.tokens for e in fresh):
                    first = self._clock() - started
                events += fresh
            events += inspection.finish()
            body = bytes(received)
            reply = assemble(
                path,
                response.status,
                body,
                "json" not in kind or "ndjson" in kind or "seq" in kind,
                events,
                inspection.verdict(),
                Timings(answered, self._clock() - started, first),
                echoed=request.get("echo") is True,
                via=response.headers.get("x-semantic-unit", "")[:128],
            )
            if response.status != 200:
                raise self._bad(path, response, body, reply)
            if not reply.documents:
                raise NotJson(f"{self._root}{path}: answers 200 with no JSON ({kind})", reply)
            return reply

    def _request(
        self, method: str, path: str, content: bytes | None
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        assert self._session is not None  # noqa: S101
        return self._session.request(
            method,
            self._root + path,
            data=content,
            headers=self._headers(content),
            allow_redirects=False,
            # The total is kept in ``_within``, over all attempts.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.settings.connect),
        )

    async def _whole(self, response: aiohttp.ClientResponse, path: str) -> bytes:
        received = bytearray()
        async for piece in response.content.iter_any():
            received += piece
            self._bound(received, path)
        return bytes(received)

    def _bound(self, received: bytearray, path: str) -> None:
        if len(received) > self.settings.body_bytes:
            raise ProbeError(
                f"{self._root}{path}: the answer is longer than {self.settings.body_bytes} bytes"
            )

    def _bad(
        self,
        path: str,
        response: aiohttp.ClientResponse,
        body: bytes,
        reply: Reply | None = None,
    ) -> BadStatus:
        status = response.status
        message = server_message(body, self.target.key(), MESSAGE)
        said = f"{self._root}{path}: status {status}" + (f": {message}" if message else "")
        if status in (401, 403):
            name = self.target.api_key_env
            said += f" (look after the key in {name})" if name else " (name a key: api_key_env)"
        elif 300 <= status < 400:
            said += " (redirects are not followed; give the final URL)"
        return BadStatus(said, status, message, reply)

    def _json(self, path: str, body: bytes) -> Any:
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise NotJson(f"{self._root}{path}: answers 200 with no JSON") from None


def _no_connection(place: str, error: Exception, settings: ClientSettings) -> NoReturn:
    tries = f" ({settings.retries + 1} tries)"
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        raise Unreachable(f"{place}: no connection within {settings.connect:g} s{tries}") from None
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = getattr(error.certificate_error, "verify_message", "") or "verification failed"
        raise Unreachable(f"{place}: the server's certificate was refused: {reason}") from None
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        raise Unreachable(f"{place}: the host name is not known{tries}") from None
    if isinstance(error, aiohttp.ClientSSLError):
        raise Unreachable(f"{place}: no TLS connection ({type(error).__name__})") from None
    reason = getattr(error, "os_error", None)
    if isinstance(reason, ConnectionRefusedError):
        raise Refused(f"{place}: nobody listens there{tries}") from None
    said = getattr(reason, "strerror", None) or type(error).__name__
    raise Unreachable(f"{place}: {said}{tries}") from None


def _list(document: Any, name: str) -> list[Any]:
    value = document.get(name) if isinstance(document, dict) else None
    return value if isinstance(value, list) else []
