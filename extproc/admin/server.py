"""The admin HTTP server's life."""

from __future__ import annotations

from aiohttp import web


class AdminServer:
    """Serves ``app`` on "host:port" or ":port". ``start`` raises OSError when it cannot listen."""

    def __init__(self, app: web.Application, address: str) -> None:
        self._runner = web.AppRunner(app, access_log=None)
        self._address = address
        self.port = 0
        """The port that was bound."""

    async def start(self) -> None:
        """Binds and serves."""
        host, _, port = self._address.rpartition(":")
        await self._runner.setup()
        site = web.TCPSite(self._runner, host.strip("[]") or "0.0.0.0", int(port))
        try:
            await site.start()
        except OSError as error:
            raise OSError(f"cannot listen on {self._address}: {error.strerror}") from None
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Closes the port and every connection."""
        await self._runner.cleanup()
