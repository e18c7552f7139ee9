"""Ports that are chosen one after another do not meet."""

from __future__ import annotations

import socket

from extproc.demo.ports import free_base, free_ports, worker_ports


def test_ports_chosen_before_are_not_chosen_again() -> None:
    everything_but_one = set(range(20_000, 32_000)) - {free_ports(1)[0]}
    assert not set(free_ports(1, everything_but_one)) & everything_but_one


def test_a_base_leaves_room_for_every_worker() -> None:
    ports = worker_ports(free_base(4), 4)
    assert len(set(ports)) == 4
    for port in ports:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
