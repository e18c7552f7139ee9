"""One gateway a test: nothing that a test does can reach the next."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from ssl import SSLContext
from typing import Any

import pytest

from tests.e2e.gateway import Gateway
from tests.e2e.upstream import (
    HEALTHY_JSON,
    HEALTHY_STREAM,
    OTHER_JSON,
    OTHER_STREAM,
    Script,
    Upstream,
    answers,
)

Make = Callable[..., Awaitable[Gateway]]

HEALTHY = answers(HEALTHY_STREAM, HEALTHY_JSON)
OTHER = answers(OTHER_STREAM, OTHER_JSON)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Make]:
    """Makes a gateway: ``await gateway(script_a, script_b, sidecar={...}, change=...)``."""
    async with AsyncExitStack() as stack:

        async def make(
            a: Script = HEALTHY, b: Script = OTHER, tls: SSLContext | None = None, **options: Any
        ) -> Gateway:
            made = Gateway(tmp_path, Upstream(a, tls), Upstream(b, tls), **options)
            return await stack.enter_async_context(made)

        yield make
