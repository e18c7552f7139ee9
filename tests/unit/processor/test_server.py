"""The gRPC server by itself: addresses, TLS, health, large messages, odd messages."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import ssl
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from grpc_health.v1 import health_pb2, health_pb2_grpc

from bench.messages import body_messages, headers_message, long_text
from extproc.detect import Inspector, Kind
from extproc.health import Ledger
from extproc.processor import HoldPolicy, Server, ServerSettings, Services
from extproc.processor.exchange import PORTION
from extproc.processor.stream import SLICE
from extproc.signals import Metrics
from extproc.tls import Tls
from extproc.units import Registry
from extproc.wire import Channel, Ended, Finish, Text

METHOD = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"
EOF: Any = grpc.aio.EOF  # type: ignore[attr-defined]

Serve = Callable[[ServerSettings], Awaitable[Server]]


@pytest.fixture
def services() -> Services:
    return Services(Registry(), Ledger(), Metrics())


@pytest.fixture
async def serve(services: Services) -> AsyncIterator[Serve]:
    async with AsyncExitStack() as stack:

        async def start(settings: ServerSettings) -> Server:
            server = Server(settings, services)
            await server.start()
            stack.push_async_callback(server.drain, 0)
            return server

        yield start


async def talk(channel: Any, messages: list[bytes]) -> list[pb.ProcessingResponse]:
    """Sends all messages, or as many as the server wants, then reads all answers."""
    call = channel.stream_stream(METHOD, None, pb.ProcessingResponse.FromString)()
    try:
        for message in messages:
            await call.write(message)
        await call.done_writing()
    except Exception:
        if await call.code() is not grpc.StatusCode.OK:
            raise
    out = []
    while (answer := await asyncio.wait_for(call.read(), 10)) is not EOF:
        out.append(answer)
    assert await call.code() is grpc.StatusCode.OK
    return out


STREAM = [headers_message(), *body_messages(20)]


async def test_a_stream_gets_one_answer_a_message_in_order(serve: Serve) -> None:
    server = await serve(ServerSettings("127.0.0.1:0"))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        answers = await talk(channel, STREAM)
    kinds = [answer.WhichOneof("response") for answer in answers]
    assert kinds == ["response_headers"] + ["response_body"] * 20
    verdict = answers[-1].dynamic_metadata["semantic.extproc"]["verdict"]
    assert verdict == "clean"


async def test_a_unix_socket_has_its_mode_and_a_stale_one_is_replaced(
    serve: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "extproc.sock"
    import socket

    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    await serve(ServerSettings(f"unix://{path}", unix_mode=0o600))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
        assert len(await talk(channel, STREAM)) == 21


async def test_a_socket_in_use_or_a_file_in_the_way_is_said(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "extproc.sock"
    await serve(ServerSettings(f"unix://{path}"))
    with pytest.raises(OSError, match="another process serves it"):
        await serve(ServerSettings(f"unix://{path}"))
    file = tmp_path / "file"
    file.write_text("precious")
    with pytest.raises(OSError, match="no socket is in the way"):
        await serve(ServerSettings(f"unix://{file}"))
    assert file.read_text() == "precious"


async def test_a_port_in_use_is_said(serve: Serve) -> None:
    server = await serve(ServerSettings("127.0.0.1:0"))
    with pytest.raises(OSError, match="another process listens there"):
        await serve(ServerSettings(f"127.0.0.1:{server.port}"))


async def test_mutual_tls_takes_known_clients_only(serve: Serve, tmp_path: Path) -> None:
    ca, other = trustme.CA(), trustme.CA()
    certificate = ca.issue_cert("localhost")
    (tmp_path / "key").write_bytes(certificate.private_key_pem.bytes())
    (tmp_path / "cert").write_bytes(b"".join(p.bytes() for p in certificate.cert_chain_pems))
    (tmp_path / "ca").write_bytes(ca.cert_pem.bytes())
    tls = Tls(tmp_path / "cert", tmp_path / "key", tmp_path / "ca")
    server = await serve(ServerSettings("localhost:0", tls=tls))

    def channel(client: trustme.CA | None) -> Any:
        pair: tuple[bytes | None, bytes | None] = (None, None)
        if client is not None:
            own = client.issue_cert("envoy")
            pair = (own.private_key_pem.bytes(), own.cert_chain_pems[0].bytes())
        credentials = grpc.ssl_channel_credentials(ca.cert_pem.bytes(), *pair)
        return grpc.aio.secure_channel(f"localhost:{server.port}", credentials)

    async with channel(ca) as known:
        assert len(await talk(known, STREAM)) == 21
    for stranger in (None, other):
        async with channel(stranger) as unknown:
            with pytest.raises((grpc.aio.AioRpcError, asyncio.InvalidStateError, ssl.SSLError)):
                await talk(unknown, STREAM)


async def test_health_serves_then_says_not_serving_while_it_drains(serve: Serve) -> None:
    server = await serve(ServerSettings("127.0.0.1:0"))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        watch = stub.Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        draining = asyncio.create_task(server.drain(5))
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watch.cancel()
        await draining


async def test_a_message_over_grpc_s_own_limit_is_taken(serve: Serve) -> None:
    server = await serve(ServerSettings("127.0.0.1:0"))
    big = pb.ProcessingRequest()
    big.response_body.body = b"x" * (20 << 20)
    big.response_body.end_of_stream = True
    async with grpc.aio.insecure_channel(
        f"127.0.0.1:{server.port}", options=[("grpc.max_send_message_length", -1)]
    ) as channel:
        answers = await talk(channel, [headers_message(), big.SerializeToString()])
    assert [a.WhichOneof("response") for a in answers] == ["response_headers", "response_body"]


def _odd(**fields: Any) -> bytes:
    return bytes(pb.ProcessingRequest(**fields).SerializeToString())


ODD: dict[str, list[bytes]] = {
    "an empty message": [_odd()],
    "nothing": [],
    "a body without headers": [_odd(response_body=pb.HttpBody(body=b"x"))],
    "empty headers": [_odd(response_headers=pb.HttpHeaders())],
    "headers twice": [headers_message(), headers_message(), *body_messages(3)],
    "the request phase too": [
        _odd(request_headers=pb.HttpHeaders()),
        _odd(request_body=pb.HttpBody(body=b"{}")),
        _odd(request_trailers=pb.HttpTrailers()),
        *STREAM,
    ],
    "trailers": [*STREAM[:-1], _odd(response_trailers=pb.HttpTrailers())],
    "trailers in the hold": [STREAM[0], _odd(response_trailers=pb.HttpTrailers())],
    "messages after the end": [*STREAM, *STREAM[1:]],
    "a body cut short": STREAM[:2],
    "no bytes at all": [STREAM[0], _odd(response_body=pb.HttpBody(end_of_stream=True))],
}


@pytest.mark.parametrize("case", ODD)
async def test_odd_messages_end_the_stream_well(
    serve: Serve, services: Services, case: str
) -> None:
    server = await serve(ServerSettings("127.0.0.1:0"))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        answers = await talk(channel, ODD[case])
    assert len(answers) <= len(ODD[case])
    errors = services.metrics.registry.get_sample_value
    for where in ("stream", "inspect", "headers", "record"):
        assert errors("semantic_extproc_internal_errors_total", {"where": where}) is None
    assert services.metrics.registry.get_sample_value("semantic_extproc_open_streams") == 0


def _body(message: bytes) -> bytes:
    return bytes(pb.ProcessingRequest.FromString(message).response_body.body)


def _large_message() -> list[bytes]:
    words = b"".join(_body(message) for message in body_messages(300))
    assert len(words) > 2 * SLICE
    return [STREAM[0], _odd(response_body=pb.HttpBody(body=words))]


def _whole(text: str) -> bytes:
    choice = {"index": 0, "message": {"content": text}, "finish_reason": "length"}
    return json.dumps({"choices": [choice]}).encode()


def _whole_body(text: str, ended: bool = True) -> list[bytes]:
    """A JSON body in pieces as Envoy hands them over, the last with the end or before trailers."""
    body = _whole(text)
    pieces = [body[at : at + 50_000] for at in range(0, len(body), 50_000)]
    out = [headers_message("application/json")]
    for piece in pieces[:-1]:
        out.append(_odd(response_body=pb.HttpBody(body=piece)))
    out.append(_odd(response_body=pb.HttpBody(body=pieces[-1], end_of_stream=ended)))
    return out if ended else [*out, _odd(response_trailers=pb.HttpTrailers())]


def _compressed(text: str) -> list[bytes]:
    """An event stream of a few large messages, compressed into one small piece."""
    headers = pb.ProcessingRequest.FromString(headers_message())
    headers.response_headers.headers.headers.add(key="content-encoding", raw_value=b"gzip")
    deltas = [{"content": text[at : at + 40_000]} for at in range(0, len(text), 40_000)]
    frames = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    body = gzip.compress(b"".join(b"data: %b\n\n" % json.dumps(f).encode() for f in frames))
    sent = [body[at : at + SLICE] for at in range(0, len(body), SLICE)]
    return [
        headers.SerializeToString(),
        *(_odd(response_body=pb.HttpBody(body=piece)) for piece in sent),
        _odd(response_body=pb.HttpBody(end_of_stream=True)),
    ]


PROSE = "".join(long_text()[:50_000])


@pytest.mark.parametrize(
    ("messages", "turns_owed"),
    [
        (_large_message(), 2),
        (_whole_body(PROSE), len(PROSE) // PORTION),
        (_whole_body(PROSE, ended=False), len(PROSE) // PORTION),
        (_compressed(PROSE[:20_000] * 40), 15),
    ],
    ids=["one message of a stream", "a whole body", "a whole body with trailers", "compressed"],
)
async def test_reading_much_at_once_keeps_no_other_stream_waiting(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, messages: list[bytes], turns_owed: int
) -> None:
    # The order of events counts, not time: others are answered while the large one is being read.
    server = await serve(ServerSettings("127.0.0.1:0"))
    done: list[str] = []

    async def ask(name: str, messages: list[bytes]) -> None:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            await talk(channel, messages)
        done.append(name)

    turns = 0
    sleep = asyncio.sleep

    async def counted(seconds: float) -> None:
        nonlocal turns
        turns += 1
        await sleep(seconds)

    monkeypatch.setattr("extproc.processor.stream.asyncio.sleep", counted)
    await asyncio.gather(ask("large", messages), ask("small", STREAM))
    assert sorted(done) == ["large", "small"]
    assert turns >= turns_owed


@pytest.mark.parametrize("ended", [True, False], ids=["by its last message", "by trailers"])
@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (PROSE, Kind.CLEAN),
        (PROSE + "They had to stay in the house. " * 60, Kind.CORRUPT),
        ("!" * 400 + PROSE, Kind.CORRUPT),
    ],
    ids=["clean", "corrupt at its end", "corrupt at its start"],
)
async def test_a_large_body_is_judged_before_its_headers_go(
    serve: Serve, services: Services, text: str, verdict: Kind, ended: bool
) -> None:
    services.hold = HoldPolicy(bytes=1 << 20)
    server = await serve(ServerSettings("127.0.0.1:0"))
    inspector = Inspector()
    inspector.feed([Text(0, Channel.CONTENT, text), Finish(0, "length"), Ended(False, True)])
    assert inspector.finish().kind is verdict
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        answers = await talk(channel, _whole_body(text, ended))
    assert len(answers) == len(_whole_body(text, ended))
    mutation = answers[0].response_headers.response.header_mutation
    marked = any(h.header.key == "x-semantic-verdict" for h in mutation.set_headers)
    assert marked is (verdict is Kind.CORRUPT)


async def test_a_hold_that_ends_while_a_large_message_is_read_answers_each_message_once(
    serve: Serve, services: Services
) -> None:
    services.hold = HoldPolicy(deadline=0.0, gap=0.0, bytes=1 << 20)
    server = await serve(ServerSettings("127.0.0.1:0"))
    blank = b'data: {"choices": [{"index": 0, "delta": {"content": " "}}]}\n\n' * 3000
    messages = [
        STREAM[0],
        *(_odd(response_body=pb.HttpBody(body=blank[at : at + 60_000])) for at in (0, 60_000)),
        _odd(response_body=pb.HttpBody(body=b"", end_of_stream=True)),
    ]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        kinds = [answer.WhichOneof("response") for answer in await talk(channel, messages)]
    assert kinds[0] == "response_headers"
    assert set(kinds[1:]) <= {"response_body"}
    assert len(kinds) <= len(messages)


async def test_a_stream_leaves_nothing_of_ours_to_the_collector(serve: Serve) -> None:
    # A circle of a long stream is old by the time it is left, and would stay for hours.
    server = await serve(ServerSettings("127.0.0.1:0"))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        await talk(channel, STREAM)
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for _ in range(5):
                await talk(channel, STREAM)
            await talk(channel, STREAM[:5])  # one that is cut off
            gc.collect()
            left = {type(found).__module__ for found in gc.garbage}
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
    assert not {module for module in left if module.startswith("extproc")}
