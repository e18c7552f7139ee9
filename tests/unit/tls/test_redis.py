"""The fleet's Redis over mutual TLS, whose certificates are replaced."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from extproc.demo.ports import free_ports
from extproc.health.stores import StoreError
from extproc.health.stores.redis_link import RedisLink
from tests.redis_server import RedisServer
from tests.unit.tls.authority import HOST, Files


async def test_a_lost_redis_is_reached_again_under_another_authority(tmp_path: Path) -> None:
    files = Files(tmp_path, client_ca=True)
    cert, key, ca = files.tls.cert_file, files.tls.key_file, files.tls.client_ca_file
    (port,) = free_ports(1)
    tls = ["--tls-port", str(port), "--tls-cert-file", str(cert), "--tls-key-file", str(key)]
    tls += ["--tls-ca-cert-file", str(ca)]
    own = f"ssl_ca_certs={ca}&ssl_certfile={cert}&ssl_keyfile={key}"
    link = RedisLink(f"rediss://{HOST}:{port}/0?{own}", timeout=10)
    server = RedisServer(tmp_path)
    try:
        for authority in (trustme.CA(), trustme.CA()):
            files.write(authority, clients=authority)
            server.start(*tls)
            assert (await link.exchange([])).told == []
            server.stop()
            with pytest.raises(StoreError):
                await link.exchange([])
    finally:
        await link.close()
        server.stop()
