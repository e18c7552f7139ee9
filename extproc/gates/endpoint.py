"""The servers that gates ask: opened once, asked what they offer once."""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit, urlunsplit

from extproc.gates.conditions import Condition
from extproc.gates.outcome import Check, failed
from extproc.gates.plan import digest
from extproc.gates.settings import Service
from extproc.probes import (
    BadStatus,
    Capabilities,
    Client,
    ClientSettings,
    ClientTls,
    NotJson,
    ProbeError,
    Target,
    discover,
)
from extproc.probes.discovery import unsupported

_PASSING = frozenset({408, 425, 429, 502, 503, 504})
"""Statuses that say nothing of the model: a gateway's, or "not now"."""


@dataclass(slots=True)
class Endpoint:
    """One server. ``role`` is what reports call it."""

    role: str
    service: Service
    _stack: AsyncExitStack
    _clients: dict[float, Client] = field(default_factory=dict)
    _capabilities: Capabilities | None = None
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _quantization: str | None = None

    async def client(self, seconds: float | None = None) -> Client:
        """A client whose calls may take so long. Raises ProbeError."""
        timeout = self.service.timeout_sec if seconds is None else seconds
        found = self._clients.get(timeout)
        if found is None:
            service, key = self.service, self.service.api_key_env
            target = Target(
                service.base_url,
                service.model,
                key if os.environ.get(key, "").strip() else "",
                tls=ClientTls(service.ca_file, service.cert_file, service.key_file),
                extra=service.extra_body,
            )
            settings = ClientSettings(
                timeout=timeout,
                connect=min(5.0, timeout),
                proxies=not is_loopback(service.base_url),
            )
            found = await self._stack.enter_async_context(Client(target, settings))
            self._clients[timeout] = found
        return found

    async def capabilities(self) -> Capabilities:
        """What the server offers. Raises ProbeError when it cannot be asked."""
        async with self._asking:
            if self._capabilities is None:
                client = await self.client()
                try:
                    self._capabilities = await discover(client)
                except (BadStatus, NotJson) as error:
                    # A gateway that lists no models may still serve the one that is named.
                    listing = not isinstance(error, BadStatus) or error.status in (404, 405, 501)
                    if not (listing and self.service.model):
                        raise
                    self._capabilities = Capabilities(model=self.service.model)
            return self._capabilities

    async def quantization(self) -> str:
        """What the server says of its weights' type, "" if nothing. Raises ProbeError."""
        if self._quantization is None:
            self._quantization = await server_quantization(await self.client())
        return self._quantization

    @property
    def told_quantization(self) -> str:
        """The same if it was asked already, else ""."""
        return self._quantization or ""

    @property
    def identity(self) -> dict[str, str]:
        """What tells it apart from another, for the inputs of checks."""
        return {
            "url": shown(self.service.base_url),
            "model": self.service.model,
            "extra": digest(self.service.extra_body),
        }


async def server_quantization(client: Client) -> str:
    """What a server says of its weights' type, "" if nothing. Raises ProbeError when the server
    cannot be asked at all."""
    models = await client.get_json("/v1/models")
    for entry in models.get("data", []) if isinstance(models, dict) else []:
        meta = entry.get("meta") if isinstance(entry, dict) else None
        if isinstance(meta, dict) and isinstance(meta.get("ftype"), str):
            return str(meta["ftype"])[:64]
    try:
        props = await client.get_json("/props")
    except ProbeError:
        return ""
    said = props.get("model_ftype") if isinstance(props, dict) else None
    return said[:64] if isinstance(said, str) else ""


def unanswered(name: str, role: str, error: ProbeError, *conditions: Condition) -> Check:
    """The failed check of an endpoint that could not be asked or did not answer as it should."""
    judged = isinstance(error, NotJson) or (
        isinstance(error, BadStatus) and error.status not in _PASSING
    )
    return failed(name, f"{role}: {error}", *conditions, answered=judged)


_UNKNOWN_FIELD = re.compile(
    r"unrecogni[sz]ed|unknown|unexpected|extra (?:inputs|fields)|not (?:permitted|allowed|valid)"
    r"|invalid (?:param|field|arg)",
    re.IGNORECASE,
)


def declines(error: BadStatus) -> bool:
    """Whether a refusal says that the server does not offer what the request asks for."""
    if unsupported(error):
        return True
    sick = error.reply is not None and error.reply.corrupt
    return error.status in (400, 422) and not sick and bool(_UNKNOWN_FIELD.search(error.message))


def is_loopback(url: str) -> bool:
    """Whether a URL is this machine: then the environment's proxy has no business with it."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def shown(url: str) -> str:
    """A URL without what may be secret in it: user, password, query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))


class Secrets:
    """Takes the values of named environment variables out of texts."""

    def __init__(self, names: list[str]) -> None:
        values = {os.environ.get(name, "").strip() for name in names if name}
        # A value of a letter or two would be everywhere, and is no secret.
        self._values = sorted((value for value in values if len(value) >= 4), key=len, reverse=True)

    def scrub(self, text: str) -> str:
        """``text`` without them."""
        for value in self._values:
            text = text.replace(value, "***")
        return text
