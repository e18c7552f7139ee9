"""What is rendered for each mesh, running in a real Envoy with the real sidecar."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
from aiohttp import web

from extproc.demo.envoy import find_binary, with_ports
from extproc.demo.ports import free_ports
from extproc.demo.processes import Processes
from tests.e2e.conftest import Make, gateway
from tests.e2e.gateway import Gateway, Setup, eventually
from tests.e2e.upstream import (
    BANG_JSON,
    BANG_STREAM,
    HEALTHY_STREAM,
    OTHER_JSON,
    OTHER_STREAM,
    answers,
)
from tests.mesh import setups

__all__ = ["gateway"]

BANG = answers(BANG_STREAM, BANG_JSON)
Start = Callable[..., Any]


@pytest.fixture(params=["standalone", "istio", "envoy-gateway"])
def start(request: pytest.FixtureRequest, gateway: Make, tmp_path: Path) -> Start:
    """Starts a gateway of each kind: ``await start(a=script, **settings)``."""

    async def make(a: Any = None, b: Any = None, **change: Any) -> Gateway:
        change = {"health": {"pair_seconds": 0.2}, **change}
        options: dict[str, Any] = {name: value for name, value in (("a", a), ("b", b)) if value}
        setup: Setup
        if request.param == "istio":
            options["tls"] = setups.server_tls(tmp_path)
            setup = setups.istio(tmp_path, change)
        elif request.param == "envoy-gateway":
            setup = setups.gateway(tmp_path, change)
        else:
            setup = setups.standalone(change)
        return await gateway(setup=setup, **options)

    return make


async def test_garbage_is_retried_on_the_other_unit_and_its_unit_ejected(start: Start) -> None:
    g = await start(a=BANG)
    for stream in (True, False, True):
        got = await g.ask(stream=stream)
        assert got.status == 200
        assert got.body == b"".join(OTHER_STREAM) if stream else OTHER_JSON
        assert got.headers["x-semantic-unit"] == "unit-b"
        assert "x-semantic-verdict" not in got.headers

    async def ejected() -> bool:
        return "failed_outlier_check" in await g.flags("unit_a")

    await eventually(ejected)
    before = g.a.requests
    assert (await g.ask()).headers["x-semantic-unit"] == "unit-b"
    assert g.a.requests == before

    async def quarantined() -> bool:
        return "failed_active_health_check" in await g.flags("unit_a")

    await eventually(quarantined)


async def test_healthy_streams_are_intact_and_counted_to_unit_and_release(start: Start) -> None:
    g = await start()
    got = await g.ask(stream=True)
    assert got.body == b"".join(HEALTHY_STREAM)
    assert got.complete
    assert got.headers["x-semantic-unit"] == "unit-a"
    assert got.headers["x-semantic-release"] == (await g.unit("unit-a"))["release"] != ""
    await g.counted("unit-a", clean=1)


async def test_a_dead_sidecar_costs_nothing(start: Start) -> None:
    g = await start()
    await g.kill()
    got = await g.ask(stream=True)
    assert (got.status, got.body, got.complete) == (200, b"".join(HEALTHY_STREAM), True)
    assert "x-semantic-unit" not in got.headers


async def test_a_long_prompt_does_not_lose_its_retry(start: Start) -> None:
    g = await start(a=BANG)
    got = await g.ask(stream=True, prompt="p" * (2 << 20))
    assert got.body == b"".join(OTHER_STREAM)


async def test_observing_changes_nothing_for_clients_and_counts_all_the_same(
    gateway: Make,
) -> None:
    g = await gateway(BANG, setup=setups.standalone({"mesh": {"mode": "observe", "eject": False}}))
    for _ in range(4):
        got = await g.ask(stream=True)
        assert got.body == b"".join(BANG_STREAM)
        assert "x-semantic-unit" not in got.headers
    await g.counted("unit-a", corrupt=4)
    assert not await g.flags("unit_a")


async def test_unit_health_moves_traffic_when_observing_too(gateway: Make) -> None:
    g = await gateway(setup=setups.standalone({"mesh": {"mode": "observe"}}))
    assert await g.command("unit-a", "quarantine", "by hand") == 200

    async def moved() -> bool:
        return (await g.ask()).body == OTHER_JSON

    await eventually(moved)


async def test_istio_observes_with_the_same_topology(gateway: Make, tmp_path: Path) -> None:
    tls = setups.server_tls(tmp_path)
    mesh = {"mode": "observe", "eject": False}
    g = await gateway(BANG, tls=tls, setup=setups.istio(tmp_path, {"mesh": mesh}))
    assert (await g.ask()).body == BANG_JSON
    await g.counted("unit-a", corrupt=1)


async def test_envoy_gateway_observes_what_each_backend_says_it_is(
    gateway: Make, tmp_path: Path
) -> None:
    g = await gateway(BANG, BANG, setup=setups.gateway_observing(tmp_path))
    got = await g.ask(stream=True)
    assert got.body == b"".join(BANG_STREAM)
    await g.counted("unit-a", corrupt=1)


async def test_a_shadow_gets_copies_that_no_client_sees(gateway: Make) -> None:
    g = await gateway(b=BANG, setup=setups.shadowed())
    for _ in range(3):
        got = await g.ask(stream=True)
        assert got.body == b"".join(HEALTHY_STREAM)
        assert got.headers["x-semantic-unit"] == "unit-a"
    await g.counted("unit-a", clean=3)
    await g.counted("unit-c", corrupt=3)

    async def logged() -> bool:
        lines = [line for line in g.log("envoy").splitlines() if '"tier":"unit"' in line]
        ids = [json.loads(line)["request_id"] for line in lines]
        return (len(ids), len(set(ids))) == (6, 3)

    await eventually(logged)


async def test_answers_go_to_the_workers_that_live(gateway: Make) -> None:
    # The other address takes connections, but speaks no gRPC.
    mesh = {"sidecar": {"addresses": ["127.0.0.1:18080", "127.0.0.1:18081"]}}
    g = await gateway(setup=setups.standalone({"mesh": mesh}))
    for _ in range(6):
        assert (await g.ask(stream=True)).headers["x-semantic-unit"] == "unit-a"
    await g.counted("unit-a", clean=6)
    assert await g.stat("http.unit_a.ext_proc.failure_mode_allowed") == 0


async def test_envoy_trusts_a_sidecar_by_its_certificate_alone(
    gateway: Make, tmp_path: Path
) -> None:
    authority = trustme.CA()
    server, client = authority.issue_cert("sidecar.internal"), authority.issue_cert("envoy")
    paths = {name: tmp_path / name for name in ("ca", "cert", "key", "own-cert", "own-key")}
    authority.cert_pem.write_to_path(paths["ca"])
    for prefix, certificate in (("", server), ("own-", client)):
        certificate.cert_chain_pems[0].write_to_path(paths[f"{prefix}cert"])
        certificate.private_key_pem.write_to_path(paths[f"{prefix}key"])
    tls = {
        "cert_file": str(paths["cert"]),
        "key_file": str(paths["key"]),
        "client_ca_file": str(paths["ca"]),
    }
    sidecar = {
        "ca_file": str(paths["ca"]),
        "server_name": "sidecar.internal",
        "cert_file": str(paths["own-cert"]),
        "key_file": str(paths["own-key"]),
    }
    setup = setups.standalone(
        {"grpc": {"address": "127.0.0.1:18080", "tls": tls}, "mesh": {"sidecar": sidecar}}
    )
    g = await gateway(setup=setup, sidecar={"tls": tls})
    assert (await g.ask(stream=True)).headers["x-semantic-unit"] == "unit-a"
    await g.counted("unit-a", clean=1)


async def test_unit_health_is_asked_for_by_tls_where_the_admin_server_has_it(
    tmp_path: Path,
) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("sidecar.internal")
    for name, blob in (
        ("ca", authority.cert_pem),
        ("cert", certificate.cert_chain_pems[0]),
        ("key", certificate.private_key_pem),
    ):
        blob.write_to_path(tmp_path / name)
    tls = {"cert_file": str(tmp_path / "cert"), "key_file": str(tmp_path / "key")}
    sidecar = {"ca_file": str(tmp_path / "ca"), "server_name": "sidecar.internal"}
    setup = setups.standalone(
        {"admin": {"address": "127.0.0.1:18081", "tls": tls}, "mesh": {"sidecar": sidecar}}
    )
    asked: list[str] = []

    async def health(request: web.Request) -> web.Response:
        asked.append(request.host)
        return web.Response(status=503 if request.host == "unit-a" else 200)

    app = web.Application()
    app.router.add_get("/unit-health", health)
    runner = web.AppRunner(app)
    await runner.setup()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(context)
    front, admin, health_port, *others = free_ports(6)
    await web.TCPSite(runner, "127.0.0.1", health_port, ssl_context=context).start()
    numbers = dict(zip((18080, 8001, 8002), others, strict=True))
    numbers |= {10000: front, 9901: admin, 18081: health_port}
    (tmp_path / "envoy.json").write_text(json.dumps(with_ports(setup.envoy, numbers)))
    try:
        with Processes(tmp_path) as processes:
            command = [str(find_binary()), "-c", str(tmp_path / "envoy.json"), "-l", "warning"]
            processes.start("envoy", [*command, "--use-dynamic-base-id"])
            async with aiohttp.ClientSession() as session:
                url = f"http://127.0.0.1:{admin}/clusters"

                async def told() -> bool:
                    try:
                        async with session.get(url) as response:
                            lines = (await response.text()).splitlines()
                    except aiohttp.ClientError:
                        return False
                    flags = "llm::envoy://unit_{}/::health_flags::{}"
                    return {
                        flags.format("a", "/failed_active_hc"),
                        flags.format("b", "healthy"),
                    } <= set(lines)

                await eventually(told)
    finally:
        await runner.cleanup()
    assert {"unit-a", "unit-b", "unit-a@a1", "unit-b@b1"} <= set(asked)
