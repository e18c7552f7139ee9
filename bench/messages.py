"""ext_proc messages as Envoy sends them, for the benchmarks: a vLLM-like stream."""

from __future__ import annotations

import json

from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from google.protobuf import struct_pb2

from extproc.demo.recorded import load


def headers_message(content_type: str = "text/event-stream") -> bytes:
    """The first message of a stream: response headers, attributes, cluster metadata."""
    message = pb.ProcessingRequest()
    for key, value in (
        (":status", b"200"),
        ("content-type", content_type.encode()),
        ("server", b"uvicorn"),
        ("date", b"Sun, 29 Nov 2026 10:00:00 GMT"),
    ):
        header = message.response_headers.headers.headers.add()
        header.key, header.raw_value = key, value
    attributes = struct_pb2.Struct()
    for name, text in (
        ("xds.cluster_name", "unit_a"),
        (
            "xds.upstream_host_metadata",
            'filter_metadata { key: "semantic.extproc" value { fields { key: "host" '
            'value { string_value: "a1" } } } }',
        ),
        ("upstream.address", "127.0.0.1:8001"),
        ("request.id", "4c2a5c5e-7d8f-4f0a-9d55-0f7f3c3c2a11"),
        ("request.path", "/v1/chat/completions"),
    ):
        attributes.fields[name].string_value = text
    attributes.fields["request.size"].number_value = 1834.0
    message.attributes["envoy.filters.http.ext_proc"].CopyFrom(attributes)
    _cluster_metadata(message)
    return bytes(message.SerializeToString())


def pieces() -> list[str]:
    """Tokens of a real model's answers, one after another: what healthy traffic looks like."""
    return [piece for answer in load()["healthy"] for piece in answer.pieces]


def long_text() -> list[str]:
    """A hundred thousand and more pieces of a token's size that nobody repeats: the topics of
    Python's own help."""
    import pydoc_data.topics

    text = "\n\n".join(pydoc_data.topics.topics.values())
    return [text[at : at + 4] for at in range(0, len(text), 4)]


def body_messages(chunks: int) -> list[bytes]:
    """``chunks`` body messages, one streamed token each, the last with ``[DONE]`` and the end.

    Raises ValueError for more chunks than there are tokens: repeated text is no healthy traffic.
    """
    return _messages(pieces(), chunks)


def long_body_messages(chunks: int) -> list[bytes]:
    """The same of ``long_text``."""
    return _messages(long_text(), chunks)


def _messages(tokens: list[str], chunks: int) -> list[bytes]:
    if chunks > len(tokens):
        raise ValueError(f"only {len(tokens)} tokens are recorded")
    out = []
    for at in range(chunks):
        delta = {
            "id": "chatcmpl-7d1f0b5c9a4e4f6f8b",
            "object": "chat.completion.chunk",
            "created": 1795956223,
            "model": "m",
            "choices": [
                {
                    "index": 0,
                    "delta": {"content": tokens[at]},
                    "logprobs": None,
                    "finish_reason": None,
                }
            ],
        }
        data = f"data: {json.dumps(delta, separators=(',', ':'))}\n\n".encode()
        last = at == chunks - 1
        message = pb.ProcessingRequest()
        message.response_body.body = data + (b"data: [DONE]\n\n" if last else b"")
        message.response_body.end_of_stream = last
        _cluster_metadata(message)
        out.append(bytes(message.SerializeToString()))
    return out


def _cluster_metadata(message: pb.ProcessingRequest) -> None:
    struct = message.metadata_context.filter_metadata["semantic.extproc"]
    struct.fields["unit"].string_value = "unit-a"
    struct.fields["release"].string_value = "r1"
