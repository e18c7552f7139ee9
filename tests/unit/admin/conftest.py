"""The admin application over ``services``, which each file describes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp.test_utils import TestClient, TestServer

from extproc.admin import make_app
from extproc.processor import Services
from tests.unit.admin.client import Client


@pytest.fixture
async def client(services: Services) -> AsyncIterator[Client]:
    async with TestClient(TestServer(make_app(services, lambda: True))) as made:
        yield made
