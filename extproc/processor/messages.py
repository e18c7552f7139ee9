"""Envoy's messages from their bytes, also where a string in them is none.

A protobuf string is UTF-8, and a parser refuses a whole message for one that is not. Envoy puts
what clients and engines send into such strings without a look (a ``traceparent`` of 0xFF): whoever
asks could keep the answer from being read. Such a message is mended, byte by byte, and read.
"""

from __future__ import annotations

from typing import Any

from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

DEEPEST = 100
"""Nesting that is followed: as deep as the parser itself goes."""

_parse = pb.ProcessingRequest.FromString
_VARINT, _EIGHT, _SIZED, _FOUR = 0, 1, 2, 5


def parse(data: bytes) -> Any:
    """The ``ProcessingRequest`` in ``data``. Raises DecodeError where there is none."""
    try:
        return _parse(data)
    except DecodeError:
        return _parse(_mended(data, pb.ProcessingRequest.DESCRIPTOR, 0))


def _mended(data: bytes, kind: Descriptor, depth: int) -> bytes:
    """A message of ``kind`` with the bytes replaced that are no characters in its strings."""
    if depth > DEEPEST:
        raise DecodeError("a message nested too deeply")
    out = bytearray()
    at = 0
    while at < len(data):
        start = at
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == _VARINT:
            _, at = _varint(data, at)
        elif wire in (_EIGHT, _FOUR):
            at += 8 if wire == _EIGHT else 4
        elif wire == _SIZED:
            out += data[start:at]
            size, at = _varint(data, at)
            value = data[at : at + size]
            start = at = at + size
            field = kind.fields_by_number.get(tag >> 3)
            if field is not None and field.type == FieldDescriptor.TYPE_STRING:
                value = value.decode(errors="replace").encode()
            elif field is not None and field.message_type is not None:
                value = _mended(value, field.message_type, depth + 1)
            out += _written(len(value)) + value
        else:
            raise DecodeError(f"no such wire type: {wire}")
        if at > len(data):
            raise DecodeError("the message ends early")
        out += data[start:at]
    return bytes(out)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise DecodeError("a number without an end")


def _written(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
