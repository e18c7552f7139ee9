"""Who may change something over the admin API."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request

from extproc.admin import AdminServer, make_app
from extproc.admin.guard import is_loopback
from extproc.admin.server import RenewedContext
from extproc.cli.admin import CA, CERT, KEY, TOKEN, Api, Refused, Unreachable
from extproc.config import ConfigError, parse
from extproc.tls import Certificates, Tls
from extproc.units import Unit
from tests.unit.cli.sidecar import served
from tests.unit.services import services_of

UNITS = [Unit("a")]
WORD = {"reason": "seen garbage"}
PATH = "/api/units/a/quarantine"
TOKEN_VALUE = b"s3cret-t0ken"


def app(loopback: bool = True, token: Callable[[], bytes] | None = None) -> Application:
    services = services_of(*UNITS)
    return make_app(services, lambda: True, loopback, token)


async def post(made: Application, **headers: str) -> int:
    client: TestClient[Request, Application]
    async with TestClient(TestServer(made)) as client:
        assert (await client.get("/api/units/a")).status == 200, "reading needs no token"
        assert (await client.post("/gates/flagger/a", json={})).status in (200, 403, 503)
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return (await client.post(PATH, json=WORD, headers=names)).status


async def test_on_loopback_this_machine_s_programs_need_no_token() -> None:
    assert await post(app()) == 200
    assert await post(app(), Host="localhost:18081") == 200
    assert await post(app(), Host="[::1]:18081") == 200


async def test_on_loopback_a_page_of_the_web_changes_nothing() -> None:
    assert await post(app(), Host="evil.example:18081") == 403
    assert await post(app(), Origin="https://evil.example") == 403
    assert await post(app(), Host="127.0.0.1:18081", Origin="http://127.0.0.1:9") == 403
    assert await post(app(), Host="127.0.0.1:18081", Origin="http://127.0.0.1:18081") == 200


async def test_where_others_reach_the_port_nothing_changes_without_a_token() -> None:
    assert await post(app(loopback=False)) == 403
    assert await post(app(loopback=False), Authorization="Bearer anything") == 403


@pytest.mark.parametrize("loopback", [True, False])
async def test_where_there_is_a_token_changes_need_it(loopback: bool) -> None:
    def made() -> Application:
        return app(loopback, lambda: TOKEN_VALUE)

    assert await post(made()) == 401
    assert await post(made(), Authorization="Bearer wrong") == 401
    assert await post(made(), Authorization=f"Basic {TOKEN_VALUE.decode()}") == 401
    assert await post(made(), Authorization=f"Bearer {TOKEN_VALUE.decode()}") == 200
    assert await post(made(), Authorization=f"bearer  {TOKEN_VALUE.decode()} ") == 200


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("127.0.0.1:1", True),
        ("127.9.9.9:1", True),
        ("[::1]:1", True),
        ("localhost:1", True),
        (":1", False),
        ("0.0.0.0:1", False),
        ("[::]:1", False),
        ("10.0.0.1:1", False),
        ("localhost.evil.example:1", False),
    ],
)
def test_what_is_loopback(address: str, local: bool) -> None:
    assert is_loopback(address) is local


def test_commands_give_the_token_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(lambda: app(False, lambda: TOKEN_VALUE)) as url:
        with pytest.raises(Refused, match="changes need this sidecar's token"):
            Api(url).post(PATH, WORD)
        monkeypatch.setenv(TOKEN, TOKEN_VALUE.decode())
        assert Api(url).post(PATH, WORD)["held_by_operator"]


async def test_the_admin_port_speaks_tls_and_demands_a_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca = trustme.CA()
    pem = {name: tmp_path / f"{name}.pem" for name in ("ca", "cert", "key", "client")}
    ca.cert_pem.write_to_path(str(pem["ca"]))
    server = ca.issue_cert("127.0.0.1")
    server.cert_chain_pems[0].write_to_path(str(pem["cert"]))
    server.private_key_pem.write_to_path(str(pem["key"]))
    ca.issue_cert("operator@example.org").private_key_and_cert_chain_pem.write_to_path(
        str(pem["client"])
    )
    shown = Certificates(Tls(pem["cert"], pem["key"], pem["ca"]), "admin.tls", print)
    admin = AdminServer(app(), "127.0.0.1:0", RenewedContext(shown))
    await admin.start()
    try:
        url = f"https://127.0.0.1:{admin.port}"

        async def ask() -> Any:
            return await asyncio.to_thread(lambda: Api(url).get("/api/units"))

        with pytest.raises(Unreachable, match="certificate verify failed"):
            await ask()
        monkeypatch.setenv(CA, str(pem["ca"]))
        with pytest.raises(Unreachable):
            await ask()
        monkeypatch.setenv(CERT, str(pem["client"]))
        assert (await ask())["units"][0]["id"] == "a"
        monkeypatch.setenv(KEY, str(tmp_path / "none"))
        with pytest.raises(Unreachable, match="No such file"):
            await ask()
    finally:
        await admin.stop()


def test_a_token_that_is_not_there_is_told_with_its_line(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    for text, said in (
        ("admin:\n  token_env: SURELY_NOT_SET", "SURELY_NOT_SET is not set"),
        (f"admin:\n  token_file: {empty}", "the file is empty"),
        (f"admin: {{token_file: {empty}, token_env: X}}", "exclude each other"),
        ("admin:\n  token_file: /no/such", "cannot be read"),
    ):
        with pytest.raises(ConfigError, match=said):
            parse(text, "x.yaml")
