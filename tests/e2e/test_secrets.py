"""Secrets of the configuration stay there."""

from __future__ import annotations

import pytest

from extproc.demo.ports import free_ports
from tests.e2e.conftest import Make
from tests.e2e.gateway import eventually
from tests.e2e.upstream import BANG_JSON, BANG_STREAM, answers

BANG = answers(BANG_STREAM, BANG_JSON, gap=0.005)

SECRETS = {
    "redis": "r3dis-pa55word",
    "webhook": "h00k-s1gning-secret",
    "path": "h00k-url-capability",
    "token": "adm1n-t0ken-value",
}


async def test_no_secret_is_logged_shown_or_told(
    gateway: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRETS["webhook"])
    monkeypatch.setenv("ADMIN_TOKEN", SECRETS["token"])
    (port,) = free_ports(1)  # nobody listens: both fail, and say so
    g = await gateway(
        BANG,
        sidecar={
            "log": {"level": "debug"},
            "fleet": {"url": f"redis://user:{SECRETS['redis']}@127.0.0.1:{port}/0"},
            "webhooks": [
                {
                    "name": "hook",
                    "url": f"http://127.0.0.1:{port}/{SECRETS['path']}",
                    "secret_env": "HOOK_SECRET",
                    "verdicts": True,
                    "attempts": 2,
                }
            ],
            "admin": {"token_env": "ADMIN_TOKEN"},
        },
    )
    for _ in range(4):
        await g.ask(stream=True)
    assert await g.command("unit-b", "quarantine", "without the token") == 401

    async def failed() -> bool:
        log = g.log("sidecar")
        return "webhook" in log and "edis" in log

    await eventually(failed, 20)
    said = [g.log("sidecar"), repr(await g.metrics())]
    for path in ("/healthz", "/api/units", "/api/evidence"):
        said.append(repr(await g.get(path)))
    for secret in SECRETS.values():
        assert not any(secret in text for text in said), secret
