"""What Envoy tells, as it really tells it."""

from __future__ import annotations

from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st

from bench.messages import headers_message
from extproc.processor.facts import host_metadata, read_facts, read_headers


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
