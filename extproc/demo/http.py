"""Small questions to the processes of the demo."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

_PATIENCE = aiohttp.ClientTimeout(total=5)


def answers(session: aiohttp.ClientSession, url: str) -> Callable[[], Awaitable[bool]]:
    """A question: does ``url`` answer 200 by now?"""

    async def ask() -> bool:
        try:
            async with session.get(url, timeout=_PATIENCE) as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    return ask


async def get_json(session: aiohttp.ClientSession, url: str) -> Any:
    """The JSON at ``url``. Raises ``aiohttp.ClientError`` or ``TimeoutError``."""
    async with session.get(url, timeout=_PATIENCE) as response:
        response.raise_for_status()
        return await response.json(content_type=None)


async def get_text(session: aiohttp.ClientSession, url: str) -> str:
    """The text at ``url``. Raises ``aiohttp.ClientError`` or ``TimeoutError``."""
    async with session.get(url, timeout=_PATIENCE) as response:
        response.raise_for_status()
        return await response.text()
