"""The admin HTTP server's life."""

from __future__ import annotations

import ssl
from typing import Any, Self

from aiohttp import web

from extproc.tls import Certificates


class AdminServer:
    """Serves ``app`` on "host:port" or ":port", over TLS with a context. ``start`` raises OSError
    when it cannot listen."""

    def __init__(
        self, app: web.Application, address: str, tls: ssl.SSLContext | None = None
    ) -> None:
        self._runner = web.AppRunner(app, access_log=None)
        self._address = address
        self._tls = tls
        self.port = 0
        """The port that was bound."""

    async def start(self) -> None:
        """Binds and serves."""
        host, _, port = self._address.rpartition(":")
        await self._runner.setup()
        site = web.TCPSite(
            self._runner, host.strip("[]") or "0.0.0.0", int(port), ssl_context=self._tls
        )
        try:
            await site.start()
        except OSError as error:
            raise OSError(f"cannot listen on {self._address}: {error.strerror}") from None
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Closes the port and every connection."""
        await self._runner.cleanup()


class RenewedContext(ssl.SSLContext):
    """A listener's context that makes each connection by the certificates of that moment.

    asyncio makes a connection's TLS from the context of its listener, before it has read anything.
    A new certificate could be loaded into the live context as well, but that would never forget a
    CA that was taken out, nor the sessions of those whom it had signed.
    """

    def __new__(cls, shown: Certificates) -> Self:
        """For a server."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, shown: Certificates) -> None:
        self._shown = shown

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """A new connection."""
        self._shown.renew()
        return self._shown.now.context.wrap_bio(*args, **options)
