"""What Envoy tells, as it really tells it."""

from __future__ import annotations

from typing import Any

import pytest
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st

from bench.messages import headers_message
from extproc.processor.asking import Asking
from extproc.processor.facts import (
    ATTEMPT,
    TRACEPARENT,
    host_metadata,
    read_facts,
    read_headers,
)


def test_attributes_and_both_metadata_are_read() -> None:
    facts = read_facts(pb.ProcessingRequest.FromString(headers_message()))
    assert facts.cluster == "unit_a"
    assert facts.cluster_metadata == {"unit": "unit-a", "release": "r1"}
    assert facts.host_metadata == {"host": "a1"}
    assert (facts.path, facts.request_size) == ("/v1/chat/completions", 1834)
    assert facts.address == "127.0.0.1:8001"


def test_nothing_told_is_nothing_known() -> None:
    facts = read_facts(pb.ProcessingRequest(response_headers=pb.HttpHeaders()))
    assert (facts.cluster, facts.path, facts.request_size) == ("", "", -1)
    assert not facts.cluster_metadata
    assert not facts.host_metadata


def test_missing_host_metadata_is_the_word_null() -> None:
    assert host_metadata("NULL") == {}


@given(st.text())
def test_host_metadata_of_any_text_is_read_or_empty(text: str) -> None:
    assert host_metadata(text) == {}


def test_headers_are_read_from_raw_and_plain_values() -> None:
    message = pb.HttpHeaders()
    for key, raw, plain in (
        (":status", b"200", ""),
        ("content-type", b"", "text/event-stream"),
        ("content-encoding", b"gzip", ""),
        ("x-semantic-verdict", b"corrupt", ""),
    ):
        header = message.headers.headers.add()
        header.key, header.raw_value, header.value = key, raw, plain
    found = read_headers(message, "x-semantic-verdict")
    assert found == (200, "text/event-stream", "gzip", True)


@given(st.lists(st.tuples(st.text(max_size=20), st.binary(max_size=20))))
def test_any_headers_can_be_read(pairs: list[tuple[str, bytes]]) -> None:
    message = pb.HttpHeaders()
    for key, raw in [*pairs, (":status", pairs[0][1] if pairs else b"")]:
        header = message.headers.headers.add()
        header.key, header.raw_value = key, raw
    read_headers(message, "x-semantic-verdict")


HEADERS = "envoy.filters.http.ext_proc"


def told(**attributes: object) -> Any:
    """Response headers with attributes; "__" stands for a dot."""
    message = pb.ProcessingRequest(response_headers=pb.HttpHeaders())
    fields = message.attributes[HEADERS].fields
    for name, value in attributes.items():
        key = {"attempt": ATTEMPT, "trace": TRACEPARENT}.get(name, name.replace("__", "."))
        if isinstance(value, float):
            fields[key].number_value = value
        else:
            fields[key].string_value = str(value)
    return message


@pytest.mark.parametrize("size", [float("nan"), float("inf"), -1.0, 1e300])
def test_a_size_that_is_none_is_not_known(size: float) -> None:
    assert read_facts(told(request__size=size)).request_size == -1


@given(st.text() | st.text("0123456789", min_size=10, max_size=5000))
def test_any_number_in_a_header_is_a_number_that_can_be_stored(text: str) -> None:
    assert 0 <= read_facts(told(attempt=text)).attempt < 1 << 53
    message = pb.HttpHeaders()
    header = message.headers.headers.add()
    header.key, header.raw_value = ":status", text.encode()
    assert 0 <= read_headers(message, "x").status < 1 << 53
    header.key = "content-length"
    asking = Asking(1024)
    asking.headers(message)
    assert -1 <= asking.size < 1 << 53


@given(st.text() | st.text(max_size=10).map(lambda text: text * 7000))
def test_what_clients_choose_is_kept_short_and_on_one_line(text: str) -> None:
    facts = read_facts(told(request__id=text, upstream__address=text, trace=text))
    for kept in (facts.request_id, facts.address, facts.traceparent):
        assert len(kept) <= 128
        assert kept == "" or (kept.isascii() and kept.isprintable())
    assert bool(facts.request_id) is bool(text)


def test_long_ids_of_two_requests_stay_two() -> None:
    one, two = (read_facts(told(request__id="x" * 9000 + end)).request_id for end in "ab")
    again = read_facts(told(request__id="x" * 9000 + "a")).request_id
    assert one == again != two


@pytest.mark.parametrize("text", ["a {" * 20000, "a <" * 20000, "a: [" * 20000])
def test_host_metadata_without_a_bottom_is_none(text: str) -> None:
    assert host_metadata(text) == {}


def test_a_coding_in_each_of_two_headers_is_a_list_of_codings() -> None:
    message = pb.HttpHeaders()
    for raw in (b"gzip", b"br"):
        header = message.headers.headers.add()
        header.key, header.raw_value = "content-encoding", raw
    assert read_headers(message, "x").content_encoding == "gzip,br"
