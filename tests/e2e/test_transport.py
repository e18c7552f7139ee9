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
GOOD = answers(HEALTHY_STREAM, b"")

TLS = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3"


def _cluster(config: dict[str, Any]) -> dict[str, Any]:
    clusters = config["static_resources"]["clusters"]
    found: dict[str, Any] = next(c for c in clusters if c["name"] == "semantic_extproc")
    return found


def _ports(folder: Path, workers: int) -> list[int]:
    first = yaml.safe_load((folder / "extproc.yaml").read_text())["grpc"]["address"]
    return [int(each.rpartition(":")[2]) for each in worker_addresses(first, workers)]


async def test_over_a_unix_socket(gateway: Make, tmp_path: Path) -> None:
    path = tmp_path / "extproc.sock"

    def pipe(config: dict[str, Any]) -> None:
        endpoint = _cluster(config)["load_assignment"]["endpoints"][0]["lb_endpoints"][0]
        endpoint["endpoint"]["address"] = {"pipe": {"path": str(path)}}

    g = await gateway(BANG, sidecar={"grpc": {"address": f"unix://{path}"}}, change=pipe)
    assert (await g.ask(stream=True)).headers["x-semantic-unit"] == "unit-b"
    g.a.script = GOOD
    assert (await g.ask(stream=True)).body == b"".join(HEALTHY_STREAM)


class MutualTls:
    """Certificates of both sides, replaced as Kubernetes does it: one link is swapped. ``sds``:
    Envoy reads them by its secret discovery service, without which it reads its files once."""

    def __init__(self, folder: Path, sds: bool = False) -> None:
        self._folder = folder
        self._files = folder / "certificates"
        self._files.mkdir()
        self._sds = sds
        self._written = 0
        self.write(trustme.CA())
        self.settings = {
            "cert_file": str(self._files / "sidecar.pem"),
            "key_file": str(self._files / "sidecar.key"),
            "client_ca_file": str(self._files / "ca.pem"),
        }

    def write(self, ca: trustme.CA) -> None:
        """New certificates of ``ca`` for both, in the place of those before."""
        self.ca = ca
        self._written += 1
        version = self._files / f"..version_{self._written}"
        version.mkdir()
        for name in ("sidecar", "envoy"):
            certificate = ca.issue_cert(f"{name}.internal")
            (version / f"{name}.key").write_bytes(certificate.private_key_pem.bytes())
            (version / f"{name}.pem").write_bytes(certificate.cert_chain_pems[0].bytes())
        (version / "ca.pem").write_bytes(ca.cert_pem.bytes())
        (self._files / "..new").symlink_to(version.name)
        (self._files / "..new").rename(self._files / "..data")
        for file in version.iterdir():
            link = self._files / file.name
            if not link.is_symlink():
                link.symlink_to(f"..data/{file.name}")

    def envoy(self, config: dict[str, Any]) -> None:
        """Makes Envoy show its own and demand the sidecar's."""
        files = self._files
        own: dict[str, Any] = {
            "certificate_chain": {"filename": str(files / "envoy.pem")},
            "private_key": {"filename": str(files / "envoy.key")},
        }
        names = [{"san_type": "DNS", "matcher": {"exact": "sidecar.internal"}}]
        trusted: dict[str, Any] = {
            "trusted_ca": {"filename": str(files / "ca.pem")},
            "match_typed_subject_alt_names": names,
        }
        common: dict[str, Any] = {"tls_certificates": [own], "validation_context": trusted}
        if self._sds:
            common = {
                "tls_certificate_sds_secret_configs": [self._secret("tls_certificate", own)],
                "validation_context_sds_secret_config": self._secret("validation_context", trusted),
            }
        context = {
            "@type": f"{TLS}.UpstreamTlsContext",
            "sni": "sidecar.internal",
            "common_tls_context": common,
        }
        _cluster(config)["transport_socket"] = {"name": "tls", "typed_config": context}

    def _secret(self, kind: str, content: dict[str, Any]) -> dict[str, Any]:
        path = self._folder / f"{kind}.yaml"
        watched = {**content, "watched_directory": {"path": str(self._files)}}
        secret = {"@type": f"{TLS}.Secret", "name": kind, kind: watched}
        path.write_text(yaml.safe_dump({"resources": [secret]}))
        source = {"path_config_source": {"path": str(path)}, "resource_api_version": "V3"}
        return {"name": kind, "sds_config": source}

    async def shown(self, port: int) -> bytes:
        """The certificate that a new connection is shown."""
        context = ssl.create_default_context(cadata=self.ca.cert_pem.bytes().decode())
        context.load_cert_chain(self._files / "envoy.pem", self._files / "envoy.key")
        context.set_alpn_protocols(["h2"])
        _, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname="sidecar.internal"
        )
        found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.transport.abort()
        return bytes(found)

    def issued(self) -> bytes:
        """The sidecar's certificate in its file."""
        return ssl.PEM_cert_to_DER_cert((self._files / "sidecar.pem").read_text())


async def test_over_mutual_tls(gateway: Make, tmp_path: Path) -> None:
    tls = MutualTls(tmp_path)
    g = await gateway(BANG, sidecar={"tls": tls.settings}, change=tls.envoy)
    assert (await g.ask(stream=True)).headers["x-semantic-unit"] == "unit-b"
    await g.counted("unit-a", corrupt=1)


async def test_a_certificate_is_replaced_under_envoy_s_connections(
    gateway: Make, tmp_path: Path
) -> None:
    tls = MutualTls(tmp_path)
    g = await gateway(GOOD, workers=2, sidecar={"tls": tls.settings}, change=tls.envoy)
    for _ in range(4):
        assert (await g.ask(stream=True)).headers["x-semantic-unit"] == "unit-a"
    tls.write(tls.ca)
    for port in _ports(tmp_path, 2):
        assert await tls.shown(port) == tls.issued()
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


async def test_both_sides_move_to_another_authority_while_they_run(
    gateway: Make, tmp_path: Path
) -> None:
    tls = MutualTls(tmp_path, sds=True)
    grpc = {"tls": tls.settings, "max_connection_age": 1}
    g = await gateway(GOOD, sidecar={"grpc": grpc}, change=tls.envoy)
    assert (await g.ask(stream=True)).headers["x-semantic-unit"] == "unit-a"
    tls.write(trustme.CA())
    handshakes = await g.stat("cluster.semantic_extproc.ssl.handshake")

    async def renewed() -> bool:
        await g.ask(stream=True)
        return await g.stat("cluster.semantic_extproc.ssl.handshake") > handshakes + 1

    await eventually(renewed)  # each second one ends, and another is opened
    assert (await g.ask(stream=True)).headers["x-semantic-unit"] == "unit-a"
    (port,) = _ports(tmp_path, 1)
    assert await tls.shown(port) == tls.issued()
