"""Free ports on the loopback."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

from extproc.config.server import worker_addresses

_LOW, _HIGH = 20000, 32000
"""Below Linux's ephemeral range: an outgoing connection cannot take a port chosen here before the
server it was chosen for has started."""


def free_ports(count: int) -> list[int]:
    """``count`` different TCP ports that are free on 127.0.0.1 now."""
    found: list[int] = []
    for port in random.sample(range(_LOW, _HIGH), _HIGH - _LOW):
        if len(found) == count:
            return found
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
    raise OSError("no free ports between 20000 and 32000")


def free_base(workers: int) -> int:
    """A port from which those of so many workers are free."""
    for _ in range(100):
        (base,) = free_ports(1)
        with ExitStack() as stack:
            try:
                for address in worker_addresses(f"127.0.0.1:{base}", workers)[1:]:
                    probe = stack.enter_context(socket.socket())
                    probe.bind(("127.0.0.1", int(address.rpartition(":")[2])))
            except (OSError, OverflowError):
                continue
            return base
    raise OSError("no free ports")
