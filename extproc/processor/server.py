"""The gRPC server: ext_proc and grpc.health.v1 on a port or a Unix socket, with TLS if wanted."""

from __future__ import annotations

import logging
import socket
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from extproc.processor.listening import why
from extproc.processor.messages import parse
from extproc.processor.services import Services
from extproc.processor.stream import Stream
from extproc.tls import Certificates, Tls

log = logging.getLogger(__name__)

SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor"


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """``address``: "host:port", ":port" (all interfaces) or "unix:///path".

    ``max_message_bytes``: gRPC's own limit of 4 MiB would turn one large body message into an
    error for the client; Envoy sends what its connection buffer holds. ``max_connection_age`` in
    seconds, 0 for none.
    """

    address: str
    unix_mode: int = 0o660
    tls: Tls | None = None
    max_message_bytes: int = 256 << 20
    max_connection_age: float = 0.0


class Server:
    """One listening server. ``start`` raises OSError when the address cannot be had."""

    def __init__(self, settings: ServerSettings, services: Services) -> None:
        self._settings = settings
        self.where = f"ext_proc on {settings.address}"
        self._services = services
        self._for_new = services  # what a stream that begins now goes by, to its end
        self._health = health.aio.HealthServicer()  # type: ignore[attr-defined]
        self._server: grpc.aio.Server | None = None
        self._socket: Path | None = None
        self.port = 0
        """The TCP port that was bound; 0 for a Unix socket."""

    @property
    def serving(self) -> bool:
        """Whether it takes streams."""
        return self._server is not None

    async def start(self) -> None:
        """Binds and serves."""
        self.renew()
        settings = self._settings
        options: list[tuple[str, Any]] = [
            ("grpc.max_receive_message_length", settings.max_message_bytes),
            ("grpc.max_send_message_length", settings.max_message_bytes),
            ("grpc.so_reuseport", 0),  # a second sidecar on one port is a mistake, say so
            ("grpc.http2.min_ping_interval_without_data_ms", 10_000),  # Envoy's keepalives
        ]
        if settings.max_connection_age:
            options.append(("grpc.max_connection_age_ms", int(settings.max_connection_age * 1000)))
        server = grpc.aio.server(options=options)
        handler = grpc.stream_stream_rpc_method_handler(
            self._process,
            request_deserializer=parse,
            response_serializer=None,  # answers are serialised beforehand
        )
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, {"Process": handler}),)
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        self._bind(server)
        await server.start()
        self._server = server
        for name in ("", SERVICE):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    def renew(self) -> None:
        """New streams go by what the services say now; open ones by what they began with."""
        self._for_new = replace(self._services)

    async def drain(self, seconds: float) -> None:
        """Says "not serving", takes no new streams, and gives open ones ``seconds`` to end."""
        await self._health.enter_graceful_shutdown()
        if self._server is not None:
            await self._server.stop(seconds)
        if self._socket is not None:
            self._socket.unlink(missing_ok=True)

    def _bind(self, server: grpc.aio.Server) -> None:
        settings = self._settings
        address = settings.address
        if address.startswith("unix://"):
            path = Path(address.removeprefix("unix://"))
            _remove_stale(path)
            address = f"unix:{path}"
            self._socket = path
        elif address.startswith(":"):
            address = "0.0.0.0" + address
        try:
            if settings.tls is not None:
                told = self._services.metrics.certificate("grpc")
                shown = Certificates(settings.tls, "grpc.tls", told)
                port = server.add_secure_port(address, credentials(shown))
            else:
                port = server.add_insecure_port(address)
        except RuntimeError:
            raise OSError(f"cannot listen on {settings.address}: {why(address)}") from None
        if self._socket is not None:
            self._socket.chmod(settings.unix_mode)
        else:
            self.port = port

    async def _process(self, _: object, context: Any) -> None:
        try:
            await Stream(self._for_new, context).run()
        except Exception:
            if context.cancelled() or context.done():
                return  # Envoy reset the stream while an answer was on its way
            log.exception("a stream failed; Envoy passes its response on")
            self._services.metrics.errors.labels("stream").inc()


def _remove_stale(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(f"cannot listen on {path}: a file that is no socket is in the way")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)  # left behind by a process that is gone
            return
    raise OSError(f"cannot listen on {path}: another process serves it")


def credentials(shown: Certificates) -> grpc.ServerCredentials:
    """What a gRPC server shows and demands; each handshake by the files of that moment."""

    def configuration() -> grpc.ServerCertificateConfiguration:
        pem = shown.now
        return grpc.ssl_server_certificate_configuration([(pem.key, pem.cert)], pem.client_ca)

    def renewed() -> Any:
        return configuration() if shown.renew() else None

    return grpc.dynamic_ssl_server_credentials(
        configuration(), renewed, require_client_authentication=shown.now.client_ca is not None
    )
