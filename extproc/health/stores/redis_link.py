"""The fleet's view in Redis or Valkey: a key for each thing told, one script for it all.

The script runs alone, so reading, comparing and writing are one step (compare-and-set). Which of
two tellings holds is decided as ``extproc.health.shared`` says: of equal ones the first. Keys live
``ttl`` seconds beyond the last sidecar that told them. Entries of another type are left alone; text
that nobody told is replaced.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from extproc.health.definitions import Gateway
from extproc.health.report import ALL
from extproc.health.shared import SharedState, Telling, telling
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
-- KEYS: the index. ARGV: life in ms, most entries, then for each telling:
-- key, JSON, epoch, rank. Rank -1: a sidecar's word on itself, which it may always replace.
local severity = {pass = 0, observe = 1, quarantine = 2}
local life = ARGV[1]

local function rank_of(held)
  if held.lapsed ~= nil then return held.lapsed and 1 or 0 end
  return severity[held.state]
end

local function holds_against(told, epoch, rank)
  if rank < 0 then return true end
  local ok, held = pcall(cjson.decode, told)
  if not ok or type(held) ~= 'table' or type(held.epoch) ~= 'number'
      or rank_of(held) == nil or type(held.by) ~= 'string' then
    return true
  end
  if epoch ~= held.epoch then return epoch > held.epoch end
  return rank > rank_of(held)
end

for at = 3, #ARGV, 4 do
  local key = ARGV[at]
  local told = redis.pcall('GET', key)
  if type(told) ~= 'table' then
    if not told or holds_against(told, tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])) then
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

    The files that a ``rediss://`` URL names are read for each connection: they may be replaced.
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

    class Renewed(redis.SSLConnection):
        async def connect(self) -> None:
            if not self.is_connected:
                self.ssl_context.context = None  # it would keep what it read at first
            await super().connect()  # type: ignore[no-untyped-call]

    if client.connection_pool.connection_class is redis.SSLConnection:
        client.connection_pool.connection_class = Renewed
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

    async def exchange(self, told: Collection[Telling], gateway: Gateway | None = None) -> Heard:
        """Tells ``told``, and hears what holds now. Raises StoreError."""
        values: list[str | int] = [self._life, MAX_ENTRIES]
        for each in told:
            values += (self._key(each.name), _json(each.as_dict()), each.epoch, each.rank)
        if gateway is not None:
            values += (self._key(gateway.name), _json(gateway.as_dict()), 0, -1)
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

    def _key(self, name: str) -> str:
        return f"{self._prefix}:{name}"

    def _heard(self, answer: Any) -> Heard:
        if (
            not isinstance(answer, list)
            or answer[:1] != [b"semantic-extproc"]  # what the script begins with
            or len(answer) % 2 != 1
            or not all(isinstance(part, bytes) for part in answer)
        ):
            raise StoreError(f"{self._place}: answers as no Redis would; see fleet.url")
        told: list[Telling] = []
        gateways: list[Gateway] = []
        unreadable: list[str] = []
        for key, text in zip(answer[1::2], answer[2::2], strict=True):
            try:
                content = json.loads(text)
                if isinstance(content, dict) and "units" in content:
                    found: Gateway | Telling = Gateway.from_dict(content)
                else:
                    found = _named(telling(content))
                if self._key(found.name) != key.decode():
                    raise ValueError("stands under another name")
            except (ValueError, RecursionError):  # also of JSON and UTF-8
                unreadable.append(key.decode(errors="replace")[:200])
                continue
            if isinstance(found, Gateway):
                gateways.append(found)
            else:
                told.append(found)
        return Heard(told, tuple(gateways), tuple(sorted(unreadable)))

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


def _json(content: object) -> str:
    return json.dumps(content, separators=(",", ":"))


def _named(told: Telling) -> Telling:
    context = told.context if isinstance(told, SharedState) else ALL
    if not (
        ID.fullmatch(told.unit)
        and (context == ALL or ID.fullmatch(context))
        and (not told.release or ID.fullmatch(told.release))
    ):
        raise ValueError("names of units, classes and releases are plain")
    return told._replace(cause=told.cause[:MAX_CAUSE])


def place_of(url: str) -> str:
    """The URL without what may be secret."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "(no URL)"
    where = f"{parts.hostname or ''}{port}" if parts.hostname else parts.path
    return f"{parts.scheme}://{where}"
