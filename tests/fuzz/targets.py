"""What is fuzzed, and what must hold of any bytes.

A target takes bytes and raises when something does not hold. The first bytes of an input choose
how the rest is read (dialect, framing, encoding, places of cuts), so that every input is a case
and a seed can be written by hand.
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from google.protobuf.message import DecodeError

from extproc.cli.exchanges import Problem, read_exchanges
from extproc.detect import Inspector
from extproc.health import Ledger
from extproc.inspection import judge
from extproc.processor import Services
from extproc.processor.messages import parse
from extproc.processor.stream import EOF, Stream
from extproc.signals import Metrics
from extproc.units import Registry, Unit
from extproc.wire import DIALECTS, Framing, Limits, Reader, RequestFacts, apart

ENCODINGS = ("", "gzip", "deflate", "br", "zstd", "gzip, br", "identity", "unheard-of")
SMALL = Limits(body=1 << 16, message=1 << 12)
"""Bounds that inputs pass often."""

_DIALECTS = sorted(DIALECTS)
_FRAMINGS = list(Framing)


def wire(data: bytes) -> None:
    """Any body is read to its end, and gives the same events however it is cut."""
    dialect, framing, encoding, seed = _head(data)
    if encoding == "unheard-of":
        return
    body = data[4:]
    whole = _read(dialect, framing, encoding, [body])
    pieces = _read(dialect, framing, encoding, _cut(body, seed))
    assert _broken(whole) or _broken(pieces) or whole == pieces, "a split changed what a body says"
    assert not whole or all(not event.startswith("Ended") for event in whole[:-1])


def detectors(data: bytes) -> None:
    """Any body is judged, and gets the same verdict however it is cut."""
    dialect, framing, encoding, seed = _head(data)
    if encoding == "unheard-of":
        return
    body = data[4:]
    if encoding and _broken(_read(dialect, framing, encoding, [body])):
        return
    whole = _judge(dialect, framing, encoding, [body])
    pieces = _judge(dialect, framing, encoding, _cut(body, seed))
    assert whole == pieces, f"a split changed the verdict: {whole} and {pieces}"


def request(data: bytes) -> None:
    """Any request has facts, and whatever it asks, an answer can be judged."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        body = data.decode("utf-8", "replace")
    facts = RequestFacts.parse("POST", "/v1/chat/completions", body)
    inspector = Inspector(request=facts)
    reader = Reader(DIALECTS["openai.chat"](), Framing.JSON, "", SMALL)
    answer = {"choices": [{"index": 0, "message": {"content": "{}"}, "finish_reason": "stop"}]}
    inspector.feed(reader.feed(json.dumps(answer).encode()))
    inspector.feed(reader.finish())
    inspector.finish()


def exchanges(data: bytes) -> None:
    """Any file of recordings gives exchanges or problems with a place."""
    suffix = (".jsonl", ".json", ".har", ".sse", "", ".jsonl.gz")[data[0] % 6 if data else 0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x" + suffix)
        path.write_bytes(data[1:])
        with path.open("rb") as file:
            for item in read_exchanges(path.name, file):
                if isinstance(item, Problem):
                    assert item.where.startswith("x")
                else:
                    judge(item)


def stream(data: bytes) -> None:
    """Whatever Envoy sends, body bytes are never changed, and each is answered once, in order."""
    messages = _messages(data)
    asyncio.run(_serve(messages))


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target for target in (wire, detectors, request, exchanges, stream)
}


def _head(data: bytes) -> tuple[str, Framing, str, int]:
    a, b, c, d = data[:4].ljust(4, b"\0")
    return (
        _DIALECTS[a % len(_DIALECTS)],
        _FRAMINGS[b % len(_FRAMINGS)],
        ENCODINGS[c % len(ENCODINGS)],
        d,
    )


def _broken(events: list[str]) -> bool:
    """Whether decoding was given up. Where that happens depends on what had arrived: a bomb's
    bound grows with it, and zlib gives nothing of a piece in which it finds an error."""
    return any("expansion" in event or "Layer.ENCODING" in event for event in events)


def _cut(body: bytes, seed: int) -> list[bytes]:
    if seed == 0:
        return [body[i : i + 1] for i in range(len(body))]
    rng, start, out = random.Random(seed), 0, []
    while start < len(body):
        end = start + rng.randint(1, 1 + seed)
        out.append(body[start:end])
        start = end
    return out


def _read(dialect: str, framing: Framing, encoding: str, pieces: list[bytes]) -> list[Any]:
    reader = Reader(DIALECTS[dialect](), framing, encoding, SMALL)
    events = apart(event for piece in pieces for event in reader.feed(piece))
    return [repr(event) for event in events + reader.finish()]  # NaN is not equal to itself


def _judge(dialect: str, framing: Framing, encoding: str, pieces: list[bytes]) -> tuple[Any, ...]:
    reader = Reader(DIALECTS[dialect](), framing, encoding, SMALL)
    inspector = Inspector()
    for piece in pieces:
        inspector.feed(reader.feed(piece))
    inspector.feed(reader.finish())
    verdict = inspector.finish()
    return verdict.kind, sorted({finding.name for finding in verdict.findings})


def _messages(data: bytes) -> list[Any]:
    """ProcessingRequests: a headers message made of the first line, body messages of the rest.

    Lines are cut at 0x1e; an empty one ends the response, one that begins with 0x1f is parsed as
    a whole serialised message. What stands before 0x1d in the first is the request's body.
    """
    first, *rest = data.split(b"\x1e")
    asked, seen, first = first.rpartition(b"\x1d")
    headers = pb.ProcessingRequest()
    status, _, more = first.partition(b"\x1f")
    content_type, _, more = more.partition(b"\x1f")
    encoding, _, path = more.partition(b"\x1f")
    for key, value in (
        (":status", status),
        ("content-type", content_type),
        ("content-encoding", encoding),
        ("x-semantic-verdict", b"corrupt" if status.endswith(b"!") else b""),
    ):
        if value:
            header = headers.response_headers.headers.headers.add()
            header.key, header.raw_value = key, value
    attributes = headers.attributes["envoy.filters.http.ext_proc"].fields
    attributes["request.path"].string_value = path.decode("utf-8", "replace")
    attributes["xds.upstream_host_metadata"].string_value = path.decode("latin-1")
    attributes["request.size"].number_value = float(len(path))
    attributes["request.headers['x-envoy-attempt-count']"].string_value = status.decode("latin-1")
    for name in ("request.id", "upstream.address", "request.headers['traceparent']"):
        attributes[name].string_value = _NO_TEXT
    unit = headers.metadata_context.filter_metadata["semantic.extproc"].fields
    unit["unit"].string_value = "a" if len(path) % 2 else path.decode("utf-8", "replace")
    unit["release"].string_value = content_type.decode("utf-8", "replace")
    # Bytes in the place of characters, as Envoy sends them.
    raw = (path + bytes(len(_NO_TEXT)))[: len(_NO_TEXT)]
    out = [parse(headers.SerializeToString().replace(_NO_TEXT.encode(), raw))]
    if seen:
        out = [*_request(path, asked), *out]
    for line in rest:
        message = pb.ProcessingRequest()
        if line.startswith(b"\x1f"):
            try:
                message = parse(line[1:])
            except DecodeError:
                continue
        else:
            message.response_body.body = line
            message.response_body.end_of_stream = not line
        out.append(message)
    return out


_NO_TEXT = "no text here"


def _request(path: bytes, body: bytes) -> list[Any]:
    head, whole = pb.ProcessingRequest(), pb.ProcessingRequest()
    for key, value in ((":method", b"POST"), (":path", path), ("content-length", path)):
        header = head.request_headers.headers.headers.add()
        header.key, header.raw_value = key, value
    whole.request_body.body, whole.request_body.end_of_stream = body, True
    return [head, whole]


class _Context:
    """Stands for grpc's: reads from a list, keeps what is written."""

    def __init__(self, messages: list[Any]) -> None:
        self._messages = deque(messages)
        self.taken: list[Any] = []
        self.written: list[Any] = []

    async def read(self) -> Any:
        if not self._messages:
            return EOF
        self.taken.append(self._messages.popleft())
        return self.taken[-1]

    async def write(self, reply: bytes) -> None:
        self.written.append(pb.ProcessingResponse.FromString(reply))


async def _serve(messages: list[Any]) -> None:
    units = [Unit("a"), Unit("b")]
    services = Services(Registry(units), Ledger(units), Metrics())
    context = _Context(messages)
    await Stream(services, context).run()
    kinds = [message.WhichOneof("request") for message in context.taken]
    bodies = 0
    for reply in context.written:
        kind = reply.WhichOneof("response")
        assert kind in kinds, f"an answer to nothing: {kind}"
        if kind == "response_body":
            bodies += 1
            assert not reply.response_body.response.HasField("body_mutation")
        for header in reply.response_headers.response.header_mutation.set_headers:
            assert header.header.key.startswith("x-semantic-")
            value = header.header.raw_value
            assert value.isascii(), value
            assert b"\n" not in value, value
            assert b"\r" not in value, value
    assert bodies <= kinds.count("response_body"), "a body was answered twice"
    assert services.metrics.open_streams._value.get() == 0
    for where in ("headers", "inspect", "record"):
        assert services.metrics.errors.labels(where)._value.get() == 0, f"an error in {where}"
