"""Between Envoy and the sidecar: a Unix socket, or mutual TLS."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import trustme
import yaml

from extproc.config.server import worker_addresses
from tests.e2e.conftest import Make
from tests.e2e.gateway import eventually
from tests.e2e.upstream import BANG_JSON, BANG_STREAM, HEALTHY_STREAM, answers

BANG = answers(BANG_STREAM, BANG_JSON)


def _cluster(config: dict[str, Any]) -> dict[str, Any]:
    clusters = config["static_resources"]["clusters"]
    found: dict[str, Any] = next(c for c in clusters if c["name"] == "semantic_extproc")
    return found


async def test_over_a_unix_socket(gateway: Make, tmp_path: Path) -> None:
    path = tmp_path / "extproc.sock"

    def pipe(config: dict[str, Any]) -> None:
        endpoint = _cluster(config)["load_assignment"]["endpoints"][0]["lb_endpoints"][0]
        endpoint["endpoint"]["address"] = {"pipe": {"path": str(path)}}

    g = await gateway(BANG, sidecar={"grpc": {"address": f"unix://{path}"}}, change=pipe)
    assert (await g.ask(stream=True)).headers["x-semantic-unit"] == "unit-b"
    g.a.script = answers(HEALTHY_STREAM, b"")
    assert (await g.ask(stream=True)).body == b"".join(HEALTHY_STREAM)


class MutualTls:
    """Certificates of both sides in ``folder``, of one authority."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.ca = trustme.CA()
        for name in ("sidecar", "envoy"):
            self.issue(name)
        (folder / "ca.pem").write_bytes(self.ca.cert_pem.bytes())
        self.settings = {
            "cert_file": str(folder / "sidecar.pem"),
            "key_file": str(folder / "sidecar.key"),
            "client_ca_file": str(folder / "ca.pem"),
        }

    def issue(self, name: str) -> None:
        """A certificate for one side, in the place of the one before."""
        certificate = self.ca.issue_cert(f"{name}.internal")
        (self._folder / f"{name}.key").write_bytes(certificate.private_key_pem.bytes())
        (self._folder / f"{name}.pem").write_bytes(certificate.cert_chain_pems[0].bytes())

    def envoy(self, config: dict[str, Any]) -> None:
        """Makes Envoy show its own and demand the sidecar's."""
        kind = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
        folder = self._folder
        files = {
            "certificate_chain": {"filename": str(folder / "envoy.pem")},
            "private_key": {"filename": str(folder / "envoy.key")},
        }
        names = [{"san_type": "DNS", "matcher": {"exact": "sidecar.internal"}}]
        context = {
            "@type": kind,
            "sni": "sidecar.internal",
            "common_tls_context": {
                "tls_certificates": [files],
                "validation_context": {
                    "trusted_ca": {"filename": str(folder / "ca.pem")},
                    "match_typed_subject_alt_names": names,
                },
            },
        }
        _cluster(config)["transport_socket"] = {"name": "tls", "typed_config": context}

    async def shown(self, port: int) -> bytes:
        """The certificate that a new connection is shown."""
        context = ssl.create_default_context(cadata=self.ca.cert_pem.bytes().decode())
        context.load_cert_chain(self._folder / "envoy.pem", self._folder / "envoy.key")
        context.set_alpn_protocols(["h2"])
        _, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname="sidecar.internal"
        )
        found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.transport.abort()
        return bytes(found)

    def issued(self) -> bytes:
        """The sidecar's certificate in its file."""
        return ssl.PEM_cert_to_DER_cert((self._folder / "sidecar.pem").read_text())


async def test_over_mutual_tls(gateway: Make, tmp_path: Path) -> None:
    tls = MutualTls(tmp_path)
    g = await gateway(BANG, sidecar={"tls": tls.settings}, change=tls.envoy)
    assert (await g.ask(stream=True)).headers["x-semantic-unit"] == "unit-b"
    await g.counted("unit-a", corrupt=1)


async def test_a_certificate_is_replaced_under_envoy_s_connections(
    gateway: Make, tmp_path: Path
) -> None:
    tls = MutualTls(tmp_path)
    good = answers(HEALTHY_STREAM, b"")
    g = await gateway(good, workers=2, sidecar={"tls": tls.settings}, change=tls.envoy)
    for _ in range(4):
        assert (await g.ask(stream=True)).headers["x-semantic-unit"] == "unit-a"
    before = tls.issued()
    tls.issue("sidecar")
    assert tls.issued() != before
    first = yaml.safe_load((tmp_path / "extproc.yaml").read_text())["grpc"]["address"]
    for address in worker_addresses(first, 2):
        assert await tls.shown(int(address.rpartition(":")[2])) == tls.issued()
    for _ in range(4):
        assert (await g.ask(stream=True)).headers["x-semantic-unit"] == "unit-a"
    await g.kill_envoy()
    await g.start_envoy()
    for _ in range(4):
        assert (await g.ask(stream=True)).headers["x-semantic-unit"] == "unit-a"
    await g.counted("unit-a", clean=12)
    key = 'semantic_extproc_certificate_reloads_total{outcome="ok",server="grpc"}'

    async def told() -> bool:
        return (await g.metrics())[key] == 2  # once in each worker

    await eventually(told)
