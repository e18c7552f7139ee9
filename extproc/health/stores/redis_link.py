"""The fleet's view in Redis or Valkey: a key for each unit and class, one script for it all.

The script runs alone, so reading, comparing and writing are one step (compare-and-set). Which of
two states holds is decided as ``SharedState.order`` does. Keys live ``ttl`` seconds beyond the last
sidecar that told them. Entries of another type are left alone; text that is no state is replaced.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from extproc.health.shared import SharedState
from extproc.health.states import SEVERITY
from extproc.health.stores.base import StoreError
from extproc.health.stores.fleet import Heard
from extproc.units import ID

if TYPE_CHECKING:
    from redis.asyncio import Redis

MAX_ENTRIES = 20_000
"""Far more than sidecars tell; an index that holds more is somebody else's."""

MAX_CAUSE = 500
"""Characters of a cause that are taken over."""

_SCRIPT = """
-- KEYS: the index. ARGV: life in ms, most entries, then for each state:
-- key, JSON, epoch, severity, sidecar.
local severity = {pass = 0, observe = 1, quarantine = 2}
local life = ARGV[1]

local function holds_against(told, epoch, grave, by)
  local ok, held = pcall(cjson.decode, told)
  if not ok or type(held) ~= 'table' or type(held.epoch) ~= 'number'
      or severity[held.state] == nil or type(held.by) ~= 'string' then
    return true
  end
  if epoch ~= held.epoch then return epoch > held.epoch end
  if grave ~= severity[held.state] then return grave > severity[held.state] end
  return by > held.by
end

for at = 3, #ARGV, 5 do
  local key = ARGV[at]
  local told = redis.pcall('GET', key)
  if type(told) ~= 'table' then
    if not told or holds_against(told, tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]),
                                 ARGV[at + 4]) then
      redis.call('SET', key, ARGV[at + 1], 'PX', life)
    else
      redis.call('PEXPIRE', key, life)
    end
  end
  redis.call('SADD', KEYS[1], key)
end
redis.call('PEXPIRE', KEYS[1], life)

if redis.call('SCARD', KEYS[1]) > tonumber(ARGV[2]) then
  return redis.error_reply('ERR too many entries')
end
local found = {'semantic-extproc'}
for _, key in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  local told = redis.pcall('GET', key)
  if type(told) == 'table' then
    told = ''
  elseif not told then
    redis.call('SREM', KEYS[1], key)
  end
  if told then
    found[#found + 1] = key
    found[#found + 1] = told
  end
end
return found
"""


def open_client(url: str, timeout: float) -> tuple[Redis, type[Exception]]:
    """A client that tries once and waits ``timeout`` seconds, and the class of its errors.

    Raises StoreError when the package is not installed or ``url`` is none.
    """
    try:
        from redis import asyncio as redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
        from redis.exceptions import RedisError
    except ImportError:
        raise StoreError(
            "fleet.url needs the Redis client: pip install 'semantic-extproc[fleet]'"
        ) from None
    try:
        client: Redis = redis.Redis.from_url(
            url,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            protocol=2,  # the same words from every version of either server
            retry=Retry(NoBackoff(), 0),  # the next second tries again
            max_connections=2,
        )
    except ValueError as error:
        raise StoreError(f"fleet.url {place_of(url)}: {error}") from None
    return client, RedisError


class RedisLink:
    """``url``: ``redis://``, ``rediss://`` (TLS) or ``unix://``, with user and password if need be.

    ``timeout`` bounds one exchange, in seconds. Raises StoreError when the client is not installed
    or the URL is none; a server that is away is no error yet.
    """

    def __init__(
        self, url: str, prefix: str = "semantic-extproc", ttl: float = 600.0, timeout: float = 1.0
    ) -> None:
        self._place = place_of(url)
        self._prefix = prefix
        self._life = str(max(1, int(ttl * 1000)))
        self._timeout = timeout
        self._client, self._errors = open_client(url, timeout)
        self._script = self._client.register_script(_SCRIPT)

    async def exchange(self, states: Collection[SharedState]) -> Heard:
        """Tells ``states``, and hears what holds now. Raises StoreError."""
        values: list[str | int] = [self._life, MAX_ENTRIES]
        for state in states:
            values += (
                self._key(state.unit, state.context),
                json.dumps(state.as_dict(), separators=(",", ":")),
                state.epoch,
                SEVERITY[state.state],
                state.by,
            )
        try:
            async with asyncio.timeout(2 * self._timeout):
                answer = await self._script(keys=[f"{self._prefix}:states"], args=values)
        except TimeoutError:
            await self._drop()
            raise StoreError(f"{self._place}: no answer within {self._timeout:g} s") from None
        except (self._errors, OSError) as error:
            raise StoreError(f"{self._place}: {self._explained(error)}") from None
        except Exception as error:
            # What speaks another protocol can break the client anywhere.
            await self._drop()
            raise StoreError(
                f"{self._place}: answers as no Redis would ({type(error).__name__}); see fleet.url"
            ) from None
        return self._heard(answer)

    async def close(self) -> None:
        """Ends the connections."""
        await self._drop()

    async def _drop(self) -> None:
        with suppress(Exception):  # it is given up anyway
            async with asyncio.timeout(self._timeout):
                await self._client.aclose()

    def _key(self, unit: str, context: str) -> str:
        return f"{self._prefix}:state:{unit}#{context}"  # no name holds "#"

    def _heard(self, answer: Any) -> Heard:
        if (
            not isinstance(answer, list)
            or answer[:1] != [b"semantic-extproc"]  # what the script begins with
            or len(answer) % 2 != 1
            or not all(isinstance(part, bytes) for part in answer)
        ):
            raise StoreError(f"{self._place}: answers as no Redis would; see fleet.url")
        states: list[SharedState] = []
        unreadable: list[str] = []
        for key, told in zip(answer[1::2], answer[2::2], strict=True):
            try:
                state = _named(SharedState.from_dict(json.loads(told)))
                if self._key(state.unit, state.context) != key.decode():
                    raise ValueError("stands under another name")
            except (ValueError, RecursionError):  # also of JSON and UTF-8
                unreadable.append(key.decode(errors="replace")[:200])
                continue
            states.append(state._replace(cause=state.cause[:MAX_CAUSE]))
        return Heard(states, tuple(sorted(unreadable)))

    def _explained(self, error: Exception) -> str:
        kind = type(error).__name__
        text = str(error).rstrip(".") or kind
        upper = f"{kind} {text}".upper()
        if "WRONGTYPE" in upper or "TOO MANY ENTRIES" in upper:
            return (
                f"the key {self._prefix}:states is somebody else's ({text}); it was left alone. "
                "Set fleet.prefix"
            )
        if "NOAUTH" in upper or "WRONGPASS" in upper or "AUTHENTICATION" in upper:
            return f"{text}; put the user and password into fleet.url"
        if "READONLY" in upper or "READ ONLY" in upper or "READ-ONLY" in upper:
            return f"{text}; fleet.url must name the primary, not a replica"
        if "MOVED" in upper:
            return f"{text}; Redis Cluster is not supported, name a single primary"
        if "NOPERM" in upper:
            return f"{text}; the user needs EVAL, GET, SET and the set commands on {self._prefix}:*"
        return text


def _named(state: SharedState) -> SharedState:
    if not (
        ID.fullmatch(state.unit)
        and (state.context == "*" or ID.fullmatch(state.context))
        and (not state.release or ID.fullmatch(state.release))
    ):
        raise ValueError("names of units, classes and releases are plain")
    return state


def place_of(url: str) -> str:
    """The URL without what may be secret."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "(no URL)"
    where = f"{parts.hostname or ''}{port}" if parts.hostname else parts.path
    return f"{parts.scheme}://{where}"
