"""One prober for a fleet: who holds the lease probes, and what it found out is there for all.

A sidecar alone is the one by itself. With a fleet's Redis, a key that expires names the holder.
Each new holder gets the next fencing token, and results of an earlier one, who may not know yet
that it is over, are not taken any more.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any, Protocol

from extproc.health.stores import StoreError
from extproc.health.stores.redis_link import open_client, place_of

Found = dict[str, Any]
"""``Prober.snapshot()``: JSON values only."""


class Lease(Protocol):
    """Methods raise StoreError when nobody can be asked."""

    seconds: float
    """How long it lasts without ``hold``; infinite for one that nobody else can have."""

    async def hold(self) -> int:
        """Takes the lease, or keeps it: the fencing token. 0 while somebody else has it."""

    async def save(self, token: int, found: Found) -> bool:
        """Shares what was found; False when a later holder has done so."""

    async def load(self) -> Found | None:
        """What the latest holder found, None for nothing."""

    async def close(self) -> None:
        """Gives the lease up. Never raises."""


class Alone:
    """The lease of a sidecar without a fleet."""

    seconds = float("inf")

    async def hold(self) -> int:
        """Always ours."""
        return 1

    async def save(self, token: int, found: Found) -> bool:
        """Nobody else is there to read it."""
        return True

    async def load(self) -> Found | None:
        """What we know ourselves is all there is."""
        return None

    async def close(self) -> None:
        """Nothing to give up."""


_HOLD = """
-- KEYS: lease, fence. ARGV: holder, life in ms.
local held = redis.call('GET', KEYS[1])
if held then
  local holder, token = string.match(held, '^(.*)#(%d+)$')
  if holder ~= ARGV[1] then return 0 end
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return tonumber(token)
end
local token = redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[1], ARGV[1] .. '#' .. token, 'PX', ARGV[2])
return token
"""

_SAVE = """
-- KEYS: found. ARGV: token, content, life in ms.
local last = tonumber(redis.call('HGET', KEYS[1], 'token') or '0')
if tonumber(ARGV[1]) < last then return 0 end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'found', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
"""

_DROP = """
-- KEYS: lease. ARGV: holder.
local held = redis.call('GET', KEYS[1])
if held and string.match(held, '^(.*)#%d+$') == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
"""

KEPT_MS = 30 * 86_400_000
"""How long results are shared that nobody renews."""


class RedisLease:
    """``holder``: a name that no other process has. ``timeout`` bounds one exchange, in seconds."""

    def __init__(
        self, url: str, prefix: str, holder: str, seconds: float = 30.0, timeout: float = 1.0
    ) -> None:
        self.seconds = seconds
        self._holder = holder.replace("#", "-")
        self._life = int(seconds * 1000)
        self._timeout = timeout
        self._place = place_of(url)
        self._client, self._errors = open_client(url, timeout)
        self._keys = {name: f"{prefix}:probes:{name}" for name in ("lease", "fence", "found")}
        self._hold = self._client.register_script(_HOLD)
        self._save = self._client.register_script(_SAVE)
        self._drop = self._client.register_script(_DROP)

    async def hold(self) -> int:
        """Takes or keeps the lease."""
        keys = [self._keys["lease"], self._keys["fence"]]
        return int(await self._run(self._hold(keys=keys, args=[self._holder, self._life])))

    async def save(self, token: int, found: Found) -> bool:
        """Shares what was found, unless a later holder did."""
        content = json.dumps(found, separators=(",", ":"))
        arguments: list[str | int] = [token, content, KEPT_MS]
        return bool(await self._run(self._save(keys=[self._keys["found"]], args=arguments)))

    async def load(self) -> Found | None:
        """What was shared last; None for what is no JSON object."""
        content = await self._run(self._client.hget(self._keys["found"], "found"))
        try:
            found = json.loads(content) if content is not None else None
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    async def close(self) -> None:
        """Lets the next one begin at once."""
        with suppress(StoreError):
            await self._run(self._drop(keys=[self._keys["lease"]], args=[self._holder]))
        with suppress(Exception):  # it is given up anyway
            async with asyncio.timeout(self._timeout):
                await self._client.aclose()

    async def _run(self, call: Any) -> Any:
        try:
            async with asyncio.timeout(2 * self._timeout):
                return await call
        except TimeoutError:
            raise StoreError(f"{self._place}: no answer within {self._timeout:g} s") from None
        except (self._errors, OSError, ValueError) as error:
            raise StoreError(f"{self._place}: {type(error).__name__}") from None
