"""Certificates that are replaced while a server of ours serves, by real gRPC and HTTP clients."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
import trustme
import uvloop
from envoy.service.endpoint.v3 import eds_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from extproc.admin import AdminServer, make_app
from extproc.admin.server import RenewedContext
from extproc.config import parse
from extproc.health import Ledger
from extproc.outlets import Outlets
from extproc.processor import Server, ServerSettings, Services
from extproc.signals import Metrics
from extproc.tls import Certificates, Tls
from extproc.units import Registry
from tests.unit.signals.mesh import request
from tests.unit.tls.authority import HOST, Files, client

OLD, NEW = trustme.CA(), trustme.CA()

XDS = """\
units: [{{id: a}}]
xds:
  address: "127.0.0.1:0"
  tls: {{cert_file: {0.cert_file}, key_file: {0.key_file}{1}}}
  clusters: [{{name: llm, endpoints: [{{address: "10.0.0.1:80", unit: a}}]}}]
"""

Ask = Callable[[], Awaitable[None]]
"""Asks over one connection, which is opened by the first call."""

REFUSED = (grpc.aio.AioRpcError, aiohttp.ClientError, OSError)


class Running:
    """One server of ours, and clients of it."""

    def __init__(self, kind: str, services: Services, stack: AsyncExitStack) -> None:
        self.kind = kind
        self.port = 0
        self._services = services
        self._stack = stack

    async def start(self, tls: Tls) -> None:
        stack, services = self._stack, self._services
        if self.kind == "grpc":
            server = Server(ServerSettings("127.0.0.1:0", tls=tls), services)
            await server.start()
            stack.push_async_callback(server.drain, 0)
            self.port = server.port
        elif self.kind == "xds":
            ca = f", client_ca_file: {tls.client_ca_file}" if tls.client_ca_file else ""
            outlets = Outlets(parse(XDS.format(tls, ca), "x.yaml"), services)
            await outlets.start()
            stack.push_async_callback(outlets.stop)
            self.port = outlets.xds_port
        else:
            told = services.metrics.certificate("admin")
            context = RenewedContext(Certificates(tls, "admin.tls", told))
            app = make_app(services, lambda: True, True, None)
            admin = AdminServer(app, "127.0.0.1:0", context)
            await admin.start()
            stack.push_async_callback(admin.stop)
            self.port = admin.port

    async def open(self, trusts: trustme.CA, own: trustme.CA | None = None) -> Ask:
        """A client of its own. Raises one of REFUSED when the two do not agree."""
        ask = await (self._http if self.kind == "admin" else self._rpc)(trusts, own)
        await ask()
        return ask

    async def _rpc(self, trusts: trustme.CA, own: trustme.CA | None) -> Ask:
        pair: tuple[bytes | None, bytes | None] = (None, None)
        if own is not None:
            made = own.issue_cert("client.internal")
            pair = made.private_key_pem.bytes(), made.cert_chain_pems[0].bytes()
        credentials = grpc.ssl_channel_credentials(trusts.cert_pem.bytes(), *pair)
        channel = await self._stack.enter_async_context(
            grpc.aio.secure_channel(
                f"127.0.0.1:{self.port}",
                credentials,
                [
                    ("grpc.ssl_target_name_override", HOST),
                    ("grpc.use_local_subchannel_pool", 1),
                ],
            )
        )

        async def check() -> None:
            asked = health_pb2.HealthCheckRequest()
            await health_pb2_grpc.HealthStub(channel).Check(asked, timeout=20)

        async def endpoints() -> None:
            stub: Any = eds_pb2_grpc.EndpointDiscoveryServiceStub(channel)
            stream = stub.StreamEndpoints(timeout=20)
            await stream.write(request("", "llm"))
            await stream.read()
            stream.cancel()

        return check if self.kind == "grpc" else endpoints

    async def _http(self, trusts: trustme.CA, own: trustme.CA | None) -> Ask:
        session = await self._stack.enter_async_context(
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=client(trusts, own), limit=1))
        )

        async def units() -> None:
            url = f"https://127.0.0.1:{self.port}/api/units"
            async with session.get(url, server_hostname=HOST) as response:
                assert response.status == 200
                await response.read()

        return units

    async def serial(self, trusts: trustme.CA) -> int:
        """Of the certificate that a new connection is shown."""
        context = client(trusts)
        context.set_alpn_protocols(["http/1.1" if self.kind == "admin" else "h2"])
        _, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=context, server_hostname=HOST
        )
        shown = writer.get_extra_info("peercert")["serialNumber"]
        writer.transport.abort()
        return int(shown, 16)

    def reloads(self, outcome: str) -> float | None:
        labels = {"server": self.kind, "outcome": outcome}
        name = "semantic_extproc_certificate_reloads_total"
        return self._services.metrics.registry.get_sample_value(name, labels)


@pytest.fixture(params=["grpc", "xds", "admin"])
async def running(request: pytest.FixtureRequest) -> AsyncIterator[Running]:
    async with AsyncExitStack() as stack:
        yield Running(request.param, Services(Registry(), Ledger(), Metrics()), stack)


@pytest.mark.parametrize("swapped", [False, True], ids=["overwritten", "swapped"])
async def test_new_connections_get_a_replaced_certificate_and_open_ones_go_on(
    running: Running, tmp_path: Path, swapped: bool
) -> None:
    await replace_twice(running, Files(tmp_path, swapped=swapped))


def test_the_admin_server_does_so_on_the_loop_that_a_sidecar_runs_on(tmp_path: Path) -> None:
    async def whole() -> None:
        async with AsyncExitStack() as stack:
            services = Services(Registry(), Ledger(), Metrics())
            await replace_twice(Running("admin", services, stack), Files(tmp_path))

    uvloop.run(whole())


async def replace_twice(running: Running, files: Files) -> None:
    first = files.write(OLD)
    await running.start(files.tls)
    ask = await running.open(OLD)
    assert await running.serial(OLD) == first
    second = files.write(NEW)
    assert await running.serial(NEW) == second != first
    await running.open(NEW)
    with pytest.raises(REFUSED):
        await running.open(OLD)
    await ask()  # whom a new connection would not trust any more
    third = files.write(NEW)
    assert await running.serial(NEW) == third
    await ask()
    assert (running.reloads("ok"), running.reloads("refused")) == (2, 0)


async def test_a_broken_replacement_leaves_the_old_certificate_and_says_so(
    running: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = Files(tmp_path)
    serial = files.write(OLD)
    await running.start(files.tls)
    ask = await running.open(OLD)
    files.put({"tls.key": NEW.issue_cert(HOST).private_key_pem.bytes()})
    for _ in range(2):
        assert await running.serial(OLD) == serial
    await running.open(OLD)
    await ask()
    said = [each.getMessage() for each in caplog.records if each.name == "extproc.tls"]
    assert len(said) == 1
    assert f"{running.kind}.tls: " in said[0]
    assert f"{files.tls.key_file} is not the key of {files.tls.cert_file}" in said[0]
    assert (running.reloads("ok"), running.reloads("refused")) == (0, 1)
    later = files.write(OLD)
    assert await running.serial(OLD) == later


async def test_clients_of_a_ca_that_was_replaced_are_refused_and_those_of_the_new_one_taken(
    running: Running, tmp_path: Path
) -> None:
    files = Files(tmp_path, client_ca=True)
    files.write(OLD, clients=OLD)
    await running.start(files.tls)
    ask = await running.open(OLD, own=OLD)
    for stranger in (None, NEW):
        with pytest.raises(REFUSED):
            await running.open(OLD, own=stranger)
    files.put({"ca.crt": NEW.cert_pem.bytes()})
    await running.open(OLD, own=NEW)
    for stranger in (None, OLD):
        with pytest.raises(REFUSED):
            await running.open(OLD, own=stranger)
    await ask()
    both = OLD.cert_pem.bytes() + NEW.cert_pem.bytes()  # how one goes from one to the other
    files.put({"ca.crt": both})
    await running.open(OLD, own=OLD)
    await running.open(OLD, own=NEW)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_session_of_before_does_not_outlive_its_ca(
    running: Running, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    # Envoy resumes sessions, and a resumed one shows no certificate.
    files = Files(tmp_path, client_ca=True)
    files.write(OLD, clients=OLD)
    await running.start(files.tls)
    context = client(OLD, own=OLD)
    context.maximum_version = version
    context.set_alpn_protocols(["http/1.1" if running.kind == "admin" else "h2"])
    hello = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    if running.kind != "admin":
        hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)  # SETTINGS

    def connect(session: ssl.SSLSession | None) -> tuple[bool | None, ssl.SSLSession | None]:
        with (
            socket.create_connection(("127.0.0.1", running.port), 20) as plain,
            context.wrap_socket(plain, server_hostname=HOST, session=session) as secure,
        ):
            secure.sendall(hello)
            if not secure.recv(100):  # sessions of TLS 1.3 come with the first bytes
                raise ConnectionResetError
            return secure.session_reused, secure.session

    _, session = await asyncio.to_thread(connect, None)
    reused, session = await asyncio.to_thread(connect, session)
    assert reused
    files.put({"ca.crt": NEW.cert_pem.bytes()})
    for shown in (session, None):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.to_thread(connect, shown)
