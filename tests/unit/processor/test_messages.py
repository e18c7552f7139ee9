"""Envoy's messages, also those whose strings are none."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from google.protobuf.message import DecodeError, Message
from hypothesis import given
from hypothesis import strategies as st

from bench.messages import body_messages, headers_message
from extproc.processor.messages import parse

MARK = b"\x02marked\x03"
WITH_MARK = MARK.decode()


def message(text: str) -> Any:
    """One with ``text`` wherever Envoy may put what others sent."""
    made = pb.ProcessingRequest.FromString(headers_message())
    fields = made.attributes["envoy.filters.http.ext_proc"].fields
    fields["request.headers['traceparent']"].string_value = text
    fields["request.path"].string_value = text
    fields["deep"].struct_value.update({"list": [text, {"a": text}]})
    made.metadata_context.filter_metadata["semantic.extproc"].fields["unit"].string_value = text
    for key, raw, value in (("x-a", b"\xff\xfe", ""), ("x-b", b"", text), (text, b"x", "")):
        header = made.response_headers.headers.headers.add()
        header.key, header.raw_value, header.value = key, raw, value
    return made


@given(st.binary(min_size=len(MARK), max_size=len(MARK)))
def test_bytes_that_are_no_text_cost_the_string_alone(raw: bytes) -> None:
    sent = message(WITH_MARK).SerializeToString().replace(MARK, raw)
    assert parse(sent) == message(raw.decode(errors="replace"))


def test_a_mended_string_may_be_of_another_length() -> None:
    for raw in (b"\xff" * len(MARK), b"\xe4\xb8" * (len(MARK) // 2)):
        sent = message(WITH_MARK * 200).SerializeToString().replace(MARK, raw)
        assert parse(sent) == message((raw * 200).decode(errors="replace"))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(raw: bytes) -> None:
    for data in (raw, headers_message()[: len(raw)] + raw):
        with suppress(DecodeError):
            assert isinstance(parse(data), Message)


def test_a_message_without_a_bottom_is_refused() -> None:
    for levels, taken in ((20, True), (20_000, False)):
        value = b"\x1a\x01\xff"  # a Value: a string
        for _ in range(levels):
            value = sized(6, sized(1, value))  # a Value: a list of one Value
        struct = sized(1, sized(1, b"key") + sized(2, value))
        number = pb.ProcessingRequest.ATTRIBUTES_FIELD_NUMBER
        sent = sized(number, sized(1, b"filter") + sized(2, struct))
        if taken:
            assert parse(sent).attributes["filter"].fields["key"].HasField("list_value")
        else:
            with pytest.raises(DecodeError):
                parse(sent)


def sized(number: int, value: bytes) -> bytes:
    """A field of protobuf's wire format."""
    out, left = bytearray([number << 3 | 2]), len(value)
    while left >= 0x80:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left]) + value


def test_bodies_are_never_mended() -> None:
    for data in body_messages(3):
        assert parse(data) == pb.ProcessingRequest.FromString(data)
    broken = pb.ProcessingRequest(response_body=pb.HttpBody(body=b"\xff\xfe"))
    sent = broken.SerializeToString() + message(WITH_MARK).SerializeToString().replace(
        MARK, b"\xff" * len(MARK)
    )
    assert parse(sent).WhichOneof("request") == "response_headers"
