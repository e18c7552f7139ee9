"""Between Envoy and the sidecar: a Unix socket, or mutual TLS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trustme

from tests.e2e.conftest import Make
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


async def test_over_mutual_tls(gateway: Make, tmp_path: Path) -> None:
    ca = trustme.CA()
    for name in ("sidecar", "envoy"):
        certificate = ca.issue_cert(f"{name}.internal")
        (tmp_path / f"{name}.key").write_bytes(certificate.private_key_pem.bytes())
        (tmp_path / f"{name}.pem").write_bytes(certificate.cert_chain_pems[0].bytes())
    (tmp_path / "ca.pem").write_bytes(ca.cert_pem.bytes())

    def tls(config: dict[str, Any]) -> None:
        kind = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
        files = {
            "certificate_chain": {"filename": str(tmp_path / "envoy.pem")},
            "private_key": {"filename": str(tmp_path / "envoy.key")},
        }
        names = [{"san_type": "DNS", "matcher": {"exact": "sidecar.internal"}}]
        context = {
            "@type": kind,
            "sni": "sidecar.internal",
            "common_tls_context": {
                "tls_certificates": [files],
                "validation_context": {
                    "trusted_ca": {"filename": str(tmp_path / "ca.pem")},
                    "match_typed_subject_alt_names": names,
                },
            },
        }
        _cluster(config)["transport_socket"] = {"name": "tls", "typed_config": context}

    files = {
        "cert_file": str(tmp_path / "sidecar.pem"),
        "key_file": str(tmp_path / "sidecar.key"),
        "client_ca_file": str(tmp_path / "ca.pem"),
    }
    g = await gateway(BANG, sidecar={"tls": files}, change=tls)
    assert (await g.ask(stream=True)).headers["x-semantic-unit"] == "unit-b"
    await g.counted("unit-a", corrupt=1)
