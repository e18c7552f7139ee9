"""What Envoy tells about a response beside its bytes: attributes, metadata, headers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from envoy.config.core.v3 import base_pb2
from google.protobuf import text_format

NAMESPACE = "semantic.extproc"
"""Metadata namespace of everything that is ours, in both directions."""

_EMPTY: Mapping[str, object] = MappingProxyType({})
_PLAIN = re.compile("[!-~]{1,128}")
"""What is kept of strings from outside: nothing that ends a line, moves a cursor, or is long."""

_DIGITS = 15
"""Of a number in a header, at most: every store and format takes as many."""


class Facts(NamedTuple):
    """Known when the response headers arrive; "" or -1 where Envoy was not asked to tell."""

    cluster: str
    cluster_metadata: Mapping[str, object]
    host_metadata: Mapping[str, object]
    address: str
    """``upstream.address``, "host:port"."""

    path: str
    request_size: int
    """Bytes of the request body."""

    request_id: str
    """As Envoy has it; what stands for it where that is long or has odd characters."""

    attempt: int
    """Of the front's attempts, from 1; 0 where the front does not say."""

    traceparent: str
    client: str
    """Who asked, as the first of the configured attributes has it."""


ATTEMPT = "request.headers['x-envoy-attempt-count']"
TRACEPARENT = "request.headers['traceparent']"


def read_facts(request: Any, client_attributes: Sequence[str] = ()) -> Facts:
    """Facts of a ``ProcessingRequest`` that carries response headers."""
    # The key is the name that the mesh gave the filter; one filter, hence one entry.
    fields: Any = _EMPTY
    for struct in request.attributes.values():
        fields = struct.fields
        break
    metadata = request.metadata_context.filter_metadata
    return Facts(
        _string(fields, "xds.cluster_name"),
        _strings(metadata[NAMESPACE]) if NAMESPACE in metadata else _EMPTY,
        host_metadata(_string(fields, "xds.upstream_host_metadata")),
        _plain(_string(fields, "upstream.address")),
        _string(fields, "request.path"),
        _size(fields),
        _named(_string(fields, "request.id")),
        number(_string(fields, ATTEMPT), 0),
        _plain(_string(fields, TRACEPARENT)[:64]),
        next((found for name in client_attributes if (found := _string(fields, name))), ""),
    )


@lru_cache(maxsize=1024)
def host_metadata(text: str) -> Mapping[str, object]:
    """Our namespace of ``xds.upstream_host_metadata``, which Envoy sends as protobuf text.

    Hosts are few and their metadata repeats with every response, hence the cache.
    """
    if not text or text == "NULL":
        return _EMPTY
    metadata = base_pb2.Metadata()
    try:
        text_format.Parse(text, metadata, allow_unknown_field=True, allow_unknown_extension=True)
    except (text_format.ParseError, RecursionError):
        return _EMPTY
    if NAMESPACE not in metadata.filter_metadata:
        return _EMPTY
    return _strings(metadata.filter_metadata[NAMESPACE])


class ResponseHeaders(NamedTuple):
    """The response headers that matter here."""

    status: int
    content_type: str
    content_encoding: str
    marked: bool
    """Whether the upstream itself sent the marker header."""


def read_headers(headers: Any, marker: str) -> ResponseHeaders:
    """Headers of an ``HttpHeaders`` message."""
    status, content_type, content_encoding, marked = 0, "", "", False
    for header in headers.headers.headers:
        key = header.key
        if key == ":status":
            status = number(_value(header), 0)
        elif key == "content-type":
            content_type = _value(header)
        elif key == "content-encoding":
            # One header or two say the same (RFC 9110, 5.3).
            content_encoding = ",".join(filter(None, (content_encoding, _value(header))))
        elif key == marker:
            marked = True
    return ResponseHeaders(status, content_type, content_encoding, marked)


def header(headers: Any, name: str) -> str:
    """The value of one header of an ``HttpHeaders`` message, "" if it is not there."""
    for entry in headers.headers.headers:
        if entry.key == name:
            return _value(entry)
    return ""


def number(text: str, otherwise: int) -> int:
    """The number that a header gives; ``otherwise`` where it is none, or beyond all bounds."""
    return int(text) if len(text) <= _DIGITS and text.isdecimal() else otherwise


def _plain(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else ""


def _named(request_id: str) -> str:
    # Thousands of ids are kept for a while, and clients may choose them.
    if not request_id or _PLAIN.fullmatch(request_id):
        return request_id
    return hashlib.blake2b(request_id.encode(), digest_size=16).hexdigest()


def _size(fields: Any) -> int:
    size: float = fields["request.size"].number_value if "request.size" in fields else -1.0
    return int(size) if 0 <= size < 10**_DIGITS else -1


def _value(entry: Any) -> str:
    raw: bytes = entry.raw_value
    return raw.decode("latin-1") if raw else entry.value


def _string(fields: Any, name: str) -> str:
    # Reading an absent key of a message map by its index would insert it.
    value = fields.get(name)
    return value.string_value if value is not None else ""


def _strings(struct: Any) -> Mapping[str, object]:
    return {key: value.string_value for key, value in struct.fields.items()}
