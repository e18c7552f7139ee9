"""A real Redis on a free port of the loopback, for as long as a test needs it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import time
from pathlib import Path

import pytest

from extproc.demo.ports import free_ports
from extproc.demo.processes import Process, Processes

REQUIRED = "SEMANTIC_EXTPROC_TEST_REDIS"
"""Set where the tests with Redis must not be left out, as CI does."""

BINARY = "SEMANTIC_EXTPROC_TEST_REDIS_SERVER"
"""Which server to run: a name or a path, also of Valkey's."""


class RedisServer:
    """Keeps nothing on the disk. ``stop`` and ``start`` may be called again; the port stays."""

    def __init__(self, folder: Path) -> None:
        named = os.environ.get(BINARY, "redis-server")
        binary = shutil.which(named) or shutil.which("valkey-server")
        if binary is None:
            missing = "needs a real Redis: apt-get install redis-server (Debian, Ubuntu)"
            if os.environ.get(REQUIRED):
                pytest.fail(missing)
            pytest.skip(missing)
        self._binary = binary
        self._processes = Processes(folder)
        (self.port,) = free_ports(1)
        self.url = f"redis://127.0.0.1:{self.port}"
        self._process: Process | None = None

    def start(self, *arguments: str) -> None:
        """Starts it, and returns when it takes connections."""
        command = [self._binary, "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--save", "", "--appendonly", "no", *arguments]
        self._process = self._processes.start("redis", command)
        deadline = time.monotonic() + 20
        while True:
            self._process.check()
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                    connection.sendall(b"PING\r\n")
                    if connection.recv(64):
                        return
            except OSError:
                pass
            assert time.monotonic() < deadline, "redis-server does not answer"
            time.sleep(0.02)

    def kill(self) -> None:
        """Ends it as kill -9 does."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGKILL)
        self.stop()

    def stop(self) -> None:
        """Ends it."""
        if self._process is not None:
            self._processes.stop(self._process)
            self._process = None
