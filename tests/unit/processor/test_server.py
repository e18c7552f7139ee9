"""The gRPC server by itself: addresses, TLS, health, large messages, odd messages."""

from __future__ import annotations

import asyncio
import gc
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

from bench.messages import body_messages, headers_message
from extproc.health import Ledger
from extproc.processor import HoldPolicy, Server, ServerSettings, Services, Tls
from extproc.processor.stream import SLICE
from extproc.signals import Metrics
from extproc.units import Registry

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
    """Sends all messages, then reads all answers."""
    call = channel.stream_stream(METHOD, None, pb.ProcessingResponse.FromString)()
    for message in messages:
        await call.write(message)
    await call.done_writing()
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
    with pytest.raises(OSError, match="cannot listen on"):
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


async def test_a_message_of_a_megabyte_keeps_no_other_stream_waiting(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The order of events counts, not time: others are answered while the large one is being read.
    server = await serve(ServerSettings("127.0.0.1:0"))
    words = [piece for message in body_messages(300) for piece in [_body(message)]]
    large = pb.ProcessingRequest(response_body=pb.HttpBody(body=b"".join(words)[: 1 << 20]))
    assert len(large.response_body.body) > 2 * SLICE
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
    await asyncio.gather(ask("large", [STREAM[0], large.SerializeToString()]), ask("small", STREAM))
    assert sorted(done) == ["large", "small"]
    assert turns >= len(large.response_body.body) // SLICE


def _body(message: bytes) -> bytes:
    return bytes(pb.ProcessingRequest.FromString(message).response_body.body)


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
