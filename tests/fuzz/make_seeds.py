"""Writes the seeds that come from the samples: ``python -m tests.fuzz.make_seeds``."""

from __future__ import annotations

import gzip
import json
import zlib
from functools import partial
from pathlib import Path

import brotli
from backports import zstd

from extproc.wire import DIALECTS, Framing
from tests.unit.wire.samples import SAMPLES
from tests.unit.wire.samples.build import delta, sse

SEEDS = Path(__file__).with_name("seeds")


def seeds() -> dict[str, bytes]:
    """Name -> bytes. Each kind of hostile body that has a name, beside the samples."""
    dialects, framings = sorted(DIALECTS), list(Framing)
    out: dict[str, bytes] = {}
    for name, sample in SAMPLES.items():
        head = bytes([dialects.index(sample.dialect), framings.index(sample.framing), 0, 3])
        safe = name.replace("/", "-").replace(" ", "-")
        out[f"wire/{safe}"] = out[f"detectors/{safe}"] = head + sample.body
    chat = dialects.index("openai.chat")
    # Cut into pieces of several messages each, with a quote and a backslash where they end a text.
    words = ("The", " votes", ' "', "no\\", '"\\', " were", "\u00e9", "", " few", ".", "\n") * 3
    together = sse(*(delta(content=word) for word in words), delta(finish="stop"))
    out["wire/together"] = out["detectors/together"] = bytes([chat, 0, 0, 255]) + together
    body = sse(*(delta(content="!") for _ in range(40)), delta(finish="length"))
    for at, pack in (
        (1, partial(gzip.compress, mtime=0)),
        (2, zlib.compress),
        (3, brotli.compress),
        (4, zstd.compress),
    ):
        out[f"wire/encoded-{at}"] = bytes([chat, 0, at, 7]) + pack(body)
    out["wire/bomb"] = bytes([chat, 0, 1, 200]) + gzip.compress(b"data: x\n\n" * 100_000, mtime=0)
    out["detectors/deep"] = bytes([chat, 2, 0, 5]) + b'{"choices":' * 2000
    out["detectors/surrogates"] = bytes([chat, 0, 0, 5]) + (
        b'data: {"choices":[{"delta":{"content":"\\ud83d\\udc00\\ud800x\\udfff"}}]}\n\n' * 9
    )
    out["detectors/empty-events"] = bytes([chat, 0, 0, 60]) + b"data:\n\n" * 2000
    out["detectors/one-giant-event"] = bytes([chat, 0, 0, 60]) + b"data: " + b"x" * 9000
    out["detectors/nan"] = bytes([chat, 2, 0, 1]) + (
        b'{"choices":[{"logprobs":{"content":[{"token":"a","logprob":NaN},{"logprob":-1e999}]}}]}'
    )
    out["request/schema"] = json.dumps(
        {
            "messages": [{"role": "user", "content": "repeat ha 50 times"}],
            "response_format": {"type": "json_schema", "json_schema": {"schema": {"$ref": "#"}}},
        }
    ).encode()
    out["request/tools"] = b'{"tools":[{"function":{"name":"f","parameters":{"type":1}}}],"n":1e9}'
    exchange = {
        "id": 1,
        "request": {"method": "POST", "path": "/v1/chat/completions", "body": {}},
        "response": {"status": 200, "headers": {"content-type": "text/event-stream"}, "body": "x"},
    }
    line = json.dumps(exchange).encode() + b"\n"
    out["exchanges/lines"] = b"\0" + line * 2 + b"{}\n[]\n"
    out["exchanges/zipped"] = b"\5" + gzip.compress(line, mtime=0)
    out["exchanges/har"] = (
        b"\2" + b'{"log":{"entries":[{"request":{"url":"http://x/y"},"response":{}}]}}'
    )
    path = b"/v1/chat/completions"
    head = b"\x1f".join((b"200", b"text/event-stream", b"", path))
    tokens = [sse(delta(content=word), done=False) for word in ("The", " vote", " was", " close")]
    out["stream/healthy"] = b"\x1e".join((head, *tokens, b"data: [DONE]\n\n", b""))
    out["stream/corrupt"] = b"\x1e".join((head, *[sse(delta(content="!"), done=False)] * 20, b""))
    out["stream/injected"] = b"\x1e".join(
        (b"200!\x1ftext/html\r\nx-evil: 1\x1f\x1f/\r\nx-semantic-unit: b", b"<p>", b"")
    )
    whole = b'{"choices":[{"index":0,"message":{"content":"[1,1]"},"finish_reason":"stop"}]}'
    unary = b"\x1f".join((b"200", b"application/json", b"", path))
    for name, value in (
        ("schema", b'{"allOf":[{"items":{}},{"$ref":"#x"}],"$defs":{"x":{"$anchor":"x"}}}'),
        ("patterns", b'{"patternProperties":{"^(a+)+$":{}},"additionalProperties":false}'),
        ("deep-schema", b'{"a":' * 900 + b"1" + b"}" * 900),
    ):
        asked = b'{"response_format":{"type":"json_schema","schema":' + value + b"}}"
        out[f"stream/asked-{name}"] = b"\x1e".join((asked + b"\x1d" + unary, whole, b""))
    deep = b'{"input":[' + b"[" * 1000 + b"]" * 1000 + b"]}"
    out["stream/asked-deep"] = b"\x1e".join((deep + b"\x1d" + unary, whole, b""))
    out["stream/no-text"] = b"\x1e".join(
        (b"9" * 5000 + b"\x1fapplication/json\x1f\x1f\xff\xfe\x80/x", whole, b"")
    )
    out["wire/empty-members"] = bytes([chat, 0, 1, 9]) + gzip.compress(b"", mtime=0) * 1500
    out["wire/empty-frames"] = bytes([chat, 0, 4, 0]) + zstd.compress(b"") * 1500
    out["stream/zipped"] = b"\x1e".join(
        (b"\x1f".join((b"200", b"application/json", b"gzip", path)), b"\x1f\x8b\x08", b"")
    )
    return out


if __name__ == "__main__":
    for name, data in seeds().items():
        path = SEEDS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
