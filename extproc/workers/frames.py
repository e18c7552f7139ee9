"""What goes over the link between a worker and the authority: lists of JSON, length first.

Worker to authority:
    ["hello", worker, session, where]     session: of this process alone; where: its address
    ["records", first, [item, ...]]       numbered from ``first`` on, without a gap
    ["metrics", [row, ...]]               all of it (signals/merge.py)
    ["draining"]                          takes no new streams

Authority to worker:
    ["welcome", last]                     the last record of this session that is durable
    ["kept", last]                        the same, whenever it is a later one
    ["states", [[unit, class, state], ...]]   all that is not ``pass``; class "*": any

Both ends are processes of one version, started by one supervisor, and the socket is theirs alone.
"""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any, NamedTuple

import orjson

from extproc.detect import Finding, Kind, Weight
from extproc.health import Response

Frame = list[Any]

MAX_FRAME = 64 << 20
"""Bytes: a thousand records with their findings are well below one MiB."""

_SIZE = 4


class BrokenLink(Exception):
    """What arrived is no frame of this protocol."""


def encode(frame: Frame) -> bytes:
    """The bytes of one frame."""
    try:
        body = orjson.dumps(frame)
    except (TypeError, orjson.JSONEncodeError):  # a lone surrogate in the shape of a finding
        body = json.dumps(frame).encode()
    return len(body).to_bytes(_SIZE, "big") + body


async def read(reader: asyncio.StreamReader) -> Frame | None:
    """The next frame, None at the end. Raises BrokenLink."""
    try:
        size = int.from_bytes(await reader.readexactly(_SIZE), "big")
        if size > MAX_FRAME:
            raise BrokenLink(f"a frame of {size} bytes")
        body = await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    try:
        frame = orjson.loads(body)
    except orjson.JSONDecodeError:
        try:
            frame = json.loads(body)
        except ValueError:
            raise BrokenLink("no JSON") from None
    if not isinstance(frame, list) or not frame or not isinstance(frame[0], str):
        raise BrokenLink("no frame")
    return frame


class Began(NamedTuple):
    """A later attempt at a request has begun with ordinary text."""

    request_id: str
    unit: str


class Judged(NamedTuple):
    """A judged response, and the end of the text that proved it corrupt, if any of it may be
    quoted. It stays in memory: what is kept of it, the authority decides."""

    response: Response
    text: str = ""


Item = Judged | Began

_KIND, _FINDINGS = Response._fields.index("kind"), Response._fields.index("findings")


def item_row(item: Item) -> Frame:
    """An item as JSON holds it."""
    if isinstance(item, Began):
        return list(item)
    response = item.response
    row: Frame = [*response, item.text]
    row[_KIND] = response.kind.value
    row[_FINDINGS] = [
        [f.detector, f.reason, _number(f.value), _number(f.threshold), f.weight.value, f.shape]
        for f in response.findings
    ]
    return row


def item_of(row: Frame) -> Item:
    """The item that ``item_row`` described. Raises ValueError or TypeError for anything else."""
    if len(row) == len(Began._fields):
        return Began(*row)
    *fields, text = row
    fields[_KIND] = Kind(row[_KIND])
    fields[_FINDINGS] = tuple(
        Finding(detector, reason, float(value), float(threshold), Weight(weight), shape)
        for detector, reason, value, threshold, weight, shape in row[_FINDINGS]
    )
    return Judged(Response(*fields), str(text))


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else repr(value)  # JSON has no name for the others
