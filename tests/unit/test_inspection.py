"""One recorded exchange, fed as it arrived."""

from __future__ import annotations

import json

from extproc.inspection import Exchange, Inspection
from extproc.wire import Channel, Text


def _message(text: str) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def test_what_a_body_says_is_told_piece_by_piece_however_it_came() -> None:
    pieces = ["The", " capital", ' is "', "Lisbon", '".']
    exchange = Exchange(
        "r", "/v1/chat/completions", b"", headers={"content-type": "text/event-stream"}
    )
    inspection = Inspection(exchange)
    told = inspection.feed(_message(pieces[0]))
    told += inspection.feed(b"".join(map(_message, pieces[1:])))
    assert told == [Text(0, Channel.CONTENT, piece, 1) for piece in pieces]
