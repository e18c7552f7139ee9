"""Settings of the processes: how many workers, and when one is given up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from extproc.config.base import Model

STRIDE = 10
"""From a worker's port to the next: leaves room between for the admin port and xDS, by default
the two that follow the first."""

LAST_PORT = 65535


class ServerModel(Model):
    """The processes of a sidecar."""

    workers: Annotated[int, Field(ge=1, le=256)] | Literal["auto"] = Field(
        "auto",
        description="processes that read answers; auto: one a core. Worker i listens on the port "
        f"of grpc.address + {STRIDE} i, or on its Unix socket's name + .i",
    )
    watch: bool = Field(False, description="reload when the configuration file changes")
    hang_seconds: Annotated[float, Field(ge=2, le=3600)] = Field(
        10, description="a process that does nothing for so long is replaced"
    )

    def addresses(self, address: str) -> list[str]:
        """Where Envoy finds the workers when ``grpc.address`` is ``address``. One, where their
        number is the machine's to tell: the file may be read on another."""
        return worker_addresses(address, 1 if self.workers == "auto" else self.workers)

    def count(self, address: str) -> int:
        """How many workers there are when ``grpc.address`` is ``address``."""
        if self.workers != "auto":
            return self.workers
        return 1 if port_of(address) == 0 else cores()


QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""A container's share of the machine: "quota period" in microseconds, or "max period"."""


def cores() -> int:
    """Cores that this process may use: those it may run on, and no more than its container has."""
    found = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError):
        quota, period = QUOTA.read_text().split()
        if quota != "max":
            found = min(found, max(1, ceil(int(quota) / int(period))))
    return found


def port_of(address: str) -> int | None:
    """The TCP port of an address, None for a Unix socket."""
    return None if address.startswith("unix:") else int(address.rpartition(":")[2])


def worker_address(address: str, index: int) -> str:
    """Where worker ``index``, counted from 0, listens when ``grpc.address`` is ``address``."""
    if index == 0:
        return address
    port = port_of(address)
    if port is None:
        return f"{address}.{index}"
    return f"{address.rpartition(':')[0]}:{port + STRIDE * index}"


def worker_addresses(address: str, workers: int) -> list[str]:
    """Where all workers listen: the endpoints of Envoy's ext_proc cluster."""
    return [worker_address(address, index) for index in range(workers)]


def problems(server: ServerModel, address: str, others: dict[str, str | None]) -> Iterator[str]:
    """Why so many workers cannot listen. ``others``: setting -> address of what else listens."""
    workers, port = server.count(address), port_of(address)
    if workers == 1 or port is None:
        return
    if port == 0:
        yield "grpc.address: name a port, from which those of all workers follow"
        return
    ports = [port + STRIDE * index for index in range(workers)]
    if ports[-1] > LAST_PORT:
        yield f"grpc.address: {workers} workers reach to port {ports[-1]}; begin lower"
    for name, other in others.items():
        if other is not None and port_of(other) in ports:
            index = ports.index(port_of(other) or 0)
            yield f"{name}: port {port_of(other)} is that of worker {index}; take one between"
