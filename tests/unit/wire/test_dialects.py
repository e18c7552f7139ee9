"""Every dialect gives the events of its samples, however the body comes."""

from __future__ import annotations

import pytest

from extproc.wire import DIALECTS, Framing
from tests.unit.wire.reading import bytewise, read
from tests.unit.wire.samples import SAMPLES, Sample

ALL = pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES.keys())


@ALL
def test_a_whole_body_gives_the_events_it_stands_for(sample: Sample) -> None:
    assert read(sample.dialect, sample.framing, [sample.body]) == sample.events


@ALL
def test_single_bytes_give_the_same_events(sample: Sample) -> None:
    assert read(sample.dialect, sample.framing, bytewise(sample.body)) == sample.events


@ALL
@pytest.mark.parametrize("declared", [Framing.JSON, Framing.SSE, Framing.NDJSON])
def test_a_wrong_content_type_is_seen_through(sample: Sample, declared: Framing) -> None:
    if sample.framing is Framing.TEXT:
        pytest.skip("a text that is declared as JSON is not JSON")
    if (sample.dialect, sample.framing, declared) == ("ollama", Framing.JSON, Framing.NDJSON):
        pytest.skip("one document of its kind is a stream of one")
    assert read(sample.dialect, declared, [sample.body]) == sample.events
    assert read(sample.dialect, declared, bytewise(sample.body)) == sample.events


@ALL
@pytest.mark.parametrize("end", [b"\r\n", b"\r"])
def test_line_ends_of_every_kind_are_alike(sample: Sample, end: bytes) -> None:
    if sample.framing is not Framing.SSE:
        pytest.skip("only event streams have them")
    body = sample.body.replace(b"\n", end)
    assert read(sample.dialect, sample.framing, [body]) == sample.events
    assert read(sample.dialect, sample.framing, bytewise(body)) == sample.events


@ALL
def test_a_byte_order_mark_and_blanks_before_the_body_are_skipped(sample: Sample) -> None:
    body = b"\xef\xbb\xbf\r\n " + sample.body
    if sample.framing is Framing.SSE:
        body = b"\xef\xbb\xbf" + sample.body
    assert read(sample.dialect, sample.framing, [body]) == sample.events
    assert read(sample.dialect, sample.framing, bytewise(body)) == sample.events


@ALL
def test_the_body_alone_shows_its_dialect(sample: Sample) -> None:
    if sample.body.startswith(b'data: {"text": "one"}') or b'"error"' in sample.body[:16]:
        pytest.skip("nothing tells this from another API")
    assert read("auto", sample.framing, [sample.body]) == sample.events


def test_every_dialect_has_a_sample() -> None:
    assert {sample.dialect for sample in SAMPLES.values()} == set(DIALECTS) - {"auto"}
