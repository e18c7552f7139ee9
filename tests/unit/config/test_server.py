"""Where workers listen, and when they cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from extproc.config import ConfigError, parse
from extproc.config import server as servers
from extproc.config.server import cores, worker_addresses

XDS = """
units: [{id: a}]
xds: {address: ":18090", clusters: [{name: c, endpoints: [{address: "127.0.0.1:1", unit: a}]}]}
"""


def test_addresses_follow_the_first_one() -> None:
    assert worker_addresses("127.0.0.1:18080", 3) == [
        "127.0.0.1:18080",
        "127.0.0.1:18090",
        "127.0.0.1:18100",
    ]
    assert worker_addresses(":18080", 2) == [":18080", ":18090"]
    assert worker_addresses("[::1]:18080", 2) == ["[::1]:18080", "[::1]:18090"]
    assert worker_addresses("unix:///run/x.sock", 2) == [
        "unix:///run/x.sock",
        "unix:///run/x.sock.1",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('grpc: {address: "127.0.0.1:0"}', "grpc.address: name a port"),
        ('grpc: {address: ":65530"}', "grpc.address: 4 workers reach to port 65560"),
        ('admin: {address: ":18100"}', "admin.address: port 18100 is that of worker 2"),
        (
            XDS,
            "xds.address: port 18090 is that of worker 1",
        ),
    ],
)
def test_workers_that_could_not_listen_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse(f"server: {{workers: 4}}\n{text}", "x.yaml")


def test_by_default_there_is_one_a_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse("", "x").workers == cores()
    assert parse('grpc: {address: "127.0.0.1:0"}', "x").workers == 1
    quota = tmp_path / "cpu.max"
    monkeypatch.setattr(servers, "QUOTA", quota)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)))
    for text, wanted in (("max 100000", 64), ("150000 100000", 2), ("10000 100000", 1), ("?", 64)):
        quota.write_text(text)
        assert cores() == wanted
