"""Free ports on the loopback."""

from __future__ import annotations

import random
import socket

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
