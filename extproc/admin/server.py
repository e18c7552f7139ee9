"""The admin HTTP server's life."""

from __future__ import annotations

import ssl
from pathlib import Path

from aiohttp import web


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


def tls_context(cert: Path, key: Path, client_ca: Path | None) -> ssl.SSLContext:
    """What the server shows, and with ``client_ca`` demands. Raises OSError, ssl.SSLError too."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
