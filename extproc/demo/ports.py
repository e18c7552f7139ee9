"""Free ports on the loopback."""

from __future__ import annotations

import random
import socket
from collections.abc import Collection
from contextlib import ExitStack

from extproc.config.server import worker_addresses

_LOW, _HIGH = 20000, 32000
"""Below Linux's ephemeral range: an outgoing connection cannot take a port chosen here before the
server it was chosen for has started."""


def free_ports(count: int, others_than: Collection[int] = ()) -> list[int]:
    """``count`` different TCP ports that are free on 127.0.0.1 now, and none of ``others_than``:
    of those that were chosen before and are not yet listened on."""
    found: list[int] = []
    for port in random.sample(range(_LOW, _HIGH), _HIGH - _LOW):
        if len(found) == count:
            return found
        if port in others_than:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
    raise OSError("no free ports between 20000 and 32000")


def worker_ports(base: int, workers: int) -> list[int]:
    """The ports of so many workers from ``base`` on."""
    addresses = worker_addresses(f"127.0.0.1:{base}", workers)
    return [int(address.rpartition(":")[2]) for address in addresses]


def free_base(workers: int) -> int:
    """A port from which those of so many workers are free."""
    for _ in range(100):
        (base,) = free_ports(1)
        with ExitStack() as stack:
            try:
                for port in worker_ports(base, workers)[1:]:
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except (OSError, OverflowError):
                continue
            return base
    raise OSError("no free ports")
