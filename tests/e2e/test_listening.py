"""Nobody but this machine reaches a sidecar that was not told otherwise."""

from __future__ import annotations

import os
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest

from extproc.config import Settings
from tests.e2e.conftest import Make
from tests.e2e.gateway import Gateway

LISTENING = "0A"
"""A state in /proc/net/tcp."""


def family(pid: int) -> list[int]:
    """A process and its children."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += family(int(child))
    return found


def address(text: str) -> IPv4Address | IPv6Address:
    """The address of a socket in /proc/net: words of four bytes in the machine's own order."""
    raw = bytes.fromhex(text)
    words = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    if len(words) == 4:
        return IPv4Address(words)
    found = IPv6Address(words)
    return found.ipv4_mapped or found


def listening(pid: int) -> set[tuple[IPv4Address | IPv6Address, int]]:
    """Where a process and its children take connections."""
    sockets: set[str] = set()
    for each in family(pid):
        for descriptor in Path(f"/proc/{each}/fd").iterdir():
            with suppress(OSError):
                sockets.add(os.readlink(descriptor))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and f"socket:[{fields[9]}]" in sockets:
                where, _, port = fields[1].partition(":")
                found.add((address(where), int(port, 16)))
    return found


def port(url: str) -> int:
    return int(url.rpartition(":")[2])


def test_what_is_not_set_is_this_machine_s_alone() -> None:
    settings = Settings()
    for where in (settings.grpc.address, settings.admin.address):
        assert where.startswith("127.0.0.1:")
    assert not settings.xds.address


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_sidecar_listens_where_it_was_told_and_nowhere_else(
    gateway: Make, workers: int
) -> None:
    g: Gateway = await gateway(workers=workers)
    found = listening(g.process.pid)
    assert {where for where, _ in found} == {IPv4Address("127.0.0.1")}
    assert len(found) == workers + 1
    assert port(g.admin) in {number for _, number in found}


async def test_on_a_unix_socket_only_the_admin_port_listens(gateway: Make, tmp_path: Path) -> None:
    path = tmp_path / "s"

    def pipe(config: dict[str, object]) -> None:
        clusters = config["static_resources"]["clusters"]  # type: ignore[index]
        cluster = next(found for found in clusters if found["name"] == "semantic_extproc")
        endpoint = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
        endpoint["address"] = {"pipe": {"path": str(path)}}

    g = await gateway(sidecar={"grpc": {"address": f"unix://{path}"}}, change=pipe)
    assert listening(g.process.pid) == {(IPv4Address("127.0.0.1"), port(g.admin))}
    assert path.stat().st_mode & 0o777 == 0o660
