"""Settings of all tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.redis_server import RedisServer

# A sidecar that is told no place for its store must not find the user's.
_STATE = tempfile.TemporaryDirectory(prefix="semantic-extproc-tests-")
os.environ["XDG_STATE_HOME"] = _STATE.name
os.environ.pop("STATE_DIRECTORY", None)

# A deadline would be a timing assertion, and this machine may be busy.
settings.register_profile("semantic-extproc", deadline=None)
settings.load_profile("semantic-extproc")


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis that runs; the test is left out where there is none."""
    server = RedisServer(tmp_path)
    server.start()
    try:
        yield server
    finally:
        server.stop()
