"""Why nobody can listen on an address: gRPC itself says only that it could not."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

_REMEDIES = {
    errno.EADDRINUSE: "another process listens there; stop it, or choose another port",
    errno.EACCES: "this user may not; ports below 1024 and most folders need a privilege",
    errno.EADDRNOTAVAIL: "no interface of this machine has that address",
    errno.ENOENT: "its folder is not there; make it first",
}


def why(address: str) -> str:
    """The reason and the remedy, for people. ``address``: "host:port", or "unix:" and a path."""
    try:
        if address.startswith("unix:"):
            _try_socket(Path(address.removeprefix("unix:")))
        else:
            _try_port(address)
    except socket.gaierror:
        return "no such host"
    except OSError as error:
        return _REMEDIES.get(error.errno or 0) or error.strerror or str(error)
    except ValueError:
        return "a port is a number up to 65535"
    return "gRPC does not say why"


def _try_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.bind(str(path))
    path.unlink()


def _try_port(address: str) -> None:
    host, _, port = address.rpartition(":")
    if int(port) > 65535:
        raise ValueError(port)
    found = socket.getaddrinfo(
        host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    for family, kind, protocol, _, where in found:
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
