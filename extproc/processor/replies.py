"""Answers to Envoy, serialised once and shared: most streams use the same few byte strings."""

from __future__ import annotations

from functools import lru_cache

from envoy.config.core.v3 import base_pb2
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from envoy.type.v3 import http_status_pb2
from google.protobuf import struct_pb2

from extproc.processor.facts import NAMESPACE

MARKER = "x-semantic-verdict"
"""Says ``corrupt`` to the router in front, which retries on another unit and removes it."""

UNIT = "x-semantic-unit"
RELEASE = "x-semantic-release"
STATE = "x-semantic-state"

CORRUPT = "corrupt"

_OVERWRITE = base_pb2.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD

CONTINUE_BODY: bytes = pb.ProcessingResponse(response_body=pb.BodyResponse()).SerializeToString()
CONTINUE_REQUEST_HEADERS: bytes = pb.ProcessingResponse(
    request_headers=pb.HeadersResponse()
).SerializeToString()
CONTINUE_REQUEST_BODY: bytes = pb.ProcessingResponse(
    request_body=pb.BodyResponse()
).SerializeToString()
CONTINUE_REQUEST_TRAILERS: bytes = pb.ProcessingResponse(
    request_trailers=pb.TrailersResponse()
).SerializeToString()
CONTINUE_RESPONSE_TRAILERS: bytes = pb.ProcessingResponse(
    response_trailers=pb.TrailersResponse()
).SerializeToString()


def more_time(seconds: float) -> bytes:
    """Asks Envoy to wait longer for the answer to its last message.

    Envoy grants it once a message, and no more than the filter's ``max_message_timeout``.
    """
    reply = pb.ProcessingResponse()
    reply.override_message_timeout.FromNanoseconds(int(seconds * 1e9))
    return bytes(reply.SerializeToString())


Metadata = tuple[tuple[str, str], ...]
"""Dynamic metadata under our namespace, as pairs, so that it can be a cache key."""


@lru_cache(maxsize=4096)
def headers_reply(
    unit: str, release: str, state: str, corrupt: bool, spoofed: bool, metadata: Metadata = ()
) -> bytes:
    """The answer to response headers: annotations, the marker, or its removal. ``metadata`` goes
    with it where nothing may follow: a retry resets the stream that is marked."""
    mutation = pb.HeaderMutation()
    pairs = [(UNIT, unit), (RELEASE, release), (STATE, state)]
    if corrupt:
        pairs.append((MARKER, CORRUPT))
    elif spoofed:
        mutation.remove_headers.append(MARKER)
    for key, value in pairs:
        if value:
            mutation.set_headers.append(
                base_pb2.HeaderValueOption(
                    header=base_pb2.HeaderValue(key=key, raw_value=value.encode()),
                    append_action=_OVERWRITE,
                )
            )
        else:
            mutation.remove_headers.append(key)  # an upstream's own would be taken for ours
    common = pb.CommonResponse(header_mutation=mutation)
    reply = pb.ProcessingResponse(response_headers=pb.HeadersResponse(response=common))
    if metadata:
        reply.dynamic_metadata.CopyFrom(_struct(metadata))
    return bytes(reply.SerializeToString())


@lru_cache(maxsize=4096)
def body_reply(metadata: Metadata) -> bytes:
    """The answer to the last body message that is read: the verdict, for the access log."""
    reply = pb.ProcessingResponse(response_body=pb.BodyResponse())
    reply.dynamic_metadata.CopyFrom(_struct(metadata))
    return bytes(reply.SerializeToString())


@lru_cache(maxsize=1024)
def replacement_reply(body: bytes, metadata: Metadata) -> bytes:
    """Puts ``body`` in the place of one body message."""
    common = pb.CommonResponse(body_mutation=pb.BodyMutation(body=body))
    reply = pb.ProcessingResponse(response_body=pb.BodyResponse(response=common))
    reply.dynamic_metadata.CopyFrom(_struct(metadata))
    return bytes(reply.SerializeToString())


def _struct(metadata: Metadata) -> struct_pb2.Struct:
    inner = struct_pb2.Struct()
    for key, value in metadata:
        inner.fields[key].string_value = value
    outer = struct_pb2.Struct()
    outer.fields[NAMESPACE].struct_value.CopyFrom(inner)
    return outer


STOP: bytes = pb.ProcessingResponse(
    immediate_response=pb.ImmediateResponse(
        status=http_status_pb2.HttpStatus(code=http_status_pb2.BadGateway),
        details="semantic_corrupt",
    )
).SerializeToString()
"""Cuts the stream off; sent after an in-band error event has replaced the last message."""

ERROR_EVENT = (
    b'event: error\ndata: {"error":{"message":"The engine stopped producing meaningful output.",'
    b'"type":"semantic_corrupt","param":null,"code":502}}\n\ndata: [DONE]\n\n'
)
"""What a client of a terminated stream reads last, in the form that OpenAI clients know."""
