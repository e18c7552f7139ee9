"""What goes over the link arrives as it was, whatever it holds."""

from __future__ import annotations

import asyncio
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.detect import Finding, Kind, Weight
from extproc.health import Response
from extproc.workers.frames import (
    MAX_FRAME,
    Began,
    BrokenLink,
    Frame,
    Judged,
    encode,
    item_of,
    item_row,
    read,
)

findings = st.builds(
    Finding,
    st.text(),
    st.text(),
    st.floats(),
    st.floats(),
    st.sampled_from(Weight),
    st.text(st.characters()),  # lone surrogates too: a shape may show one
)
responses = st.builds(
    Response,
    st.text(),
    st.text(),
    st.text(),
    st.text(),
    st.sampled_from(Kind),
    st.lists(findings, max_size=3).map(tuple),
    st.text(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.integers(0, 99),
    st.text(),
    st.text(),
)


async def through(data: bytes) -> Frame | None:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return await read(reader)


def same(one: object, other: object) -> bool:
    return json.dumps(one) == json.dumps(other)  # NaN is itself here


@given(
    st.lists(
        st.one_of(st.builds(Judged, responses, st.text()), st.builds(Began, st.text(), st.text())),
        max_size=4,
    )
)
def test_items_arrive_as_they_were(items: list[Judged | Began]) -> None:
    frame = asyncio.run(through(encode(["records", 7, [item_row(item) for item in items]])))
    assert frame is not None
    assert frame[:2] == ["records", 7]
    arrived = [item_of(row) for row in frame[2]]
    assert [type(item) for item in arrived] == [type(item) for item in items]
    assert same(arrived, items)


def test_values_that_json_has_no_name_for_arrive() -> None:
    values = (math.nan, math.inf, -math.inf)
    found = tuple(Finding("a", "b", value, 1.0, Weight.PROOF, "\ud800") for value in values)
    response = Response("u", "r", "c", "h", Kind.CORRUPT, found, "id", 1.0)
    frame = asyncio.run(through(encode(["records", 1, [item_row(Judged(response))]])))
    assert frame is not None
    item = item_of(frame[2][0])
    assert isinstance(item, Judged)
    assert math.isnan(item.response.findings[0].value)
    assert [finding.value for finding in item.response.findings[1:]] == [math.inf, -math.inf]
    assert item.response.findings[0].shape == "\ud800"


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\0\5[1", encode(["x"])[:-1]])
async def test_an_end_in_the_middle_is_an_end(data: bytes) -> None:
    assert await through(data) is None


@pytest.mark.parametrize("body", [b"{}", b"[]", b"[1]", b"nonsense", b"null"])
async def test_what_is_no_frame_breaks_the_link(body: bytes) -> None:
    with pytest.raises(BrokenLink):
        await through(len(body).to_bytes(4, "big") + body)


async def test_a_frame_beyond_all_bounds_is_not_read() -> None:
    with pytest.raises(BrokenLink):
        await through((MAX_FRAME + 1).to_bytes(4, "big"))
