"""Why an address cannot be had, in words that say what to do."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from extproc.processor.listening import why


def test_a_port_that_another_holds() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert "another process listens there" in why(f"127.0.0.1:{other.getsockname()[1]}")


@pytest.mark.parametrize(
    ("address", "word"),
    [
        ("192.0.2.1:0", "no interface"),  # of a block that no machine has (RFC 5737)
        ("127.0.0.1:70000", "up to 65535"),
        ("127.0.0.1:http-alt-of-nobody", "up to 65535"),
        ("no-such-host.invalid:0", "no such host"),
        ("127.0.0.1:0", "does not say"),
    ],
)
def test_an_address_that_cannot_be_had(address: str, word: str) -> None:
    assert word in why(address)


def test_a_socket_leaves_nothing_behind(tmp_path: Path) -> None:
    assert "its folder is not there" in why(f"unix:{tmp_path / 'none' / 'x.sock'}")
    assert "does not say" in why(f"unix:{tmp_path / 'x.sock'}")
    assert list(tmp_path.iterdir()) == []
