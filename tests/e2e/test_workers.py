"""Several worker processes as one sidecar, behind real Envoy."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from extproc.config.server import STRIDE
from extproc.demo.ports import free_base, free_ports, worker_ports
from tests.e2e.conftest import HEALTHY, OTHER, Make
from tests.e2e.gateway import Gateway, eventually
from tests.e2e.test_fail_open import paused
from tests.e2e.upstream import (
    BANG_JSON,
    BANG_STREAM,
    HEALTHY_STREAM,
    OTHER_STREAM,
    Reply,
    Request,
    Script,
    answers,
    stream,
)

BANGS = answers(BANG_STREAM, BANG_JSON)
LAUGHTER = stream(["ha"] * 6 + [" she laughed"])


async def held(g: Gateway, streams: int) -> None:
    """Waits until so many responses are being read."""

    async def reached() -> bool:
        return (await g.metrics())["semantic_extproc_open_streams"] == streams

    await eventually(reached)


async def restarted(g: Gateway, name: str, cause: str) -> None:
    """Waits until a process was started again, and all workers serve."""
    key = f'semantic_extproc_process_restarts_total{{cause="{cause}",process="{name}"}}'

    async def back() -> bool:
        return await g.complete() and (await g.metrics()).get(key) == 1

    await eventually(back, 30)


async def test_all_workers_get_streams_and_one_book_counts_and_tells(
    gateway: Make,
) -> None:
    g = await gateway(workers=2)
    everyone = await asyncio.gather(*(g.ask(stream=True) for _ in range(40)))
    assert all(got.body == b"".join(HEALTHY_STREAM) for got in everyone)
    await g.counted("unit-a", clean=40)

    async def told() -> bool:
        found = await g.metrics()
        return found["semantic_extproc_hold_seconds_count"] == 40

    await eventually(told)
    found = await g.metrics()
    assert found["semantic_extproc_workers"] == 2
    assert found["semantic_extproc_body_chunks_total"] >= 40
    assert (
        found[
            'semantic_extproc_responses_total{class="short",release="r1",unit="unit-a",'
            'verdict="clean"}'
        ]
        == 40
    )
    assert await g.stat("http.unit_a.ext_proc.failure_mode_allowed") == 0
    # A new state reaches every worker.
    assert await g.command("unit-a", "quarantine", "a test") == 200
    assert await g.command("unit-b", "quarantine", "a test") == 200

    async def all_know() -> bool:
        found = await asyncio.gather(*(g.ask() for _ in range(8)))
        return {got.headers.get("x-semantic-state") for got in found} == {"quarantine"}

    await eventually(all_know)


async def test_attempts_at_one_request_meet_in_one_book_whichever_workers_read_them(
    gateway: Make,
) -> None:
    # Unit A and its rival are read by whichever worker Envoy chose, often two different ones.
    g = await gateway(BANGS, workers=2, sidecar={"health": {"alpha": 1e-300, "observe_at": 1e299}})
    for _ in range(12):
        got = await g.ask(stream=True)
        assert got.body == b"".join(OTHER_STREAM)

    async def paired() -> bool:
        marked = (await g.metrics()).get('semantic_extproc_marked_total{unit="unit-a"}', 0)
        pairs = (await g.metrics())['semantic_extproc_pairs_total{corrupt="one"}']
        return marked == pairs > 0

    await eventually(paired)
    assert (await g.metrics())['semantic_extproc_pairs_total{corrupt="none"}'] == 0


@pytest.mark.parametrize("beginning", ["held", "released"])
async def test_a_worker_killed_in_mid_stream_costs_no_byte_and_is_replaced(
    gateway: Make, beginning: str
) -> None:
    pieces = LAUGHTER if beginning == "held" else HEALTHY_STREAM
    reached, go = asyncio.Event(), asyncio.Event()
    g = await gateway(workers=2)
    for _ in range(10):
        await g.ask(stream=True)
    await g.counted("unit-a", clean=10)

    async def told() -> bool:
        return (await g.metrics())["semantic_extproc_hold_seconds_count"] == 10

    await eventually(told)
    chunks = (await g.metrics())["semantic_extproc_body_chunks_total"]
    g.a.script = paused(pieces, 5, reached, go)
    asked = [asyncio.create_task(g.ask(stream=True)) for _ in range(8)]
    await held(g, 8)
    os.kill(g.pid("worker-0"), signal.SIGKILL)
    await asyncio.sleep(0.2)
    go.set()
    for got in await asyncio.gather(*asked):
        assert (got.status, got.complete) == (200, True)
        assert got.body == b"".join(pieces)
    await restarted(g, "worker-0", "killed")
    # What was acknowledged before stands, in the book and in the counters.
    found = await g.unit("unit-a")
    assert found["counts"]["clean"] >= 10
    assert (await g.metrics())["semantic_extproc_body_chunks_total"] >= chunks > 0
    await held(g, 0)


async def test_no_response_passes_unread_while_a_worker_is_dead(gateway: Make) -> None:
    g = await gateway(workers=2)
    os.kill(g.pid("worker-1"), signal.SIGKILL)
    for _ in range(30):
        assert (await g.ask(stream=True)).headers["x-semantic-unit"] == "unit-a"
    await restarted(g, "worker-1", "killed")
    assert await g.stat("http.unit_a.ext_proc.failure_mode_allowed") == 0
    await g.counted("unit-a", clean=30)


async def test_a_dead_authority_stops_no_inspection_and_loses_no_verdict(gateway: Make) -> None:
    g = await gateway(workers=2)
    await asyncio.gather(*(g.ask(stream=True) for _ in range(10)))
    await g.counted("unit-a", clean=10)
    assert await g.command("unit-b", "quarantine", "a driver update") == 200
    os.kill(g.pid("authority"), signal.SIGKILL)
    g.a.script = BANGS
    got = await g.ask(stream=True)  # held, marked, retried: without a book
    assert got.body == b"".join(OTHER_STREAM)
    assert got.headers["x-semantic-state"] == "quarantine"  # unit B's, as last told
    g.a.script = HEALTHY
    everyone = await asyncio.gather(*(g.ask(stream=True) for _ in range(20)))
    assert all(got.body == b"".join(HEALTHY_STREAM) for got in everyone)
    await restarted(g, "authority", "killed")
    await g.counted("unit-a", clean=30, corrupt=1)
    assert (await g.unit("unit-b"))["held_by_operator"] == "a driver update"


async def test_nothing_counts_twice_however_often_the_authority_dies(gateway: Make) -> None:
    g = await gateway(workers=2)
    asked = 0
    for number in (1, 2):
        await asyncio.gather(*(g.ask(stream=True) for _ in range(10)))
        asked += 10
        os.kill(g.pid("authority"), signal.SIGKILL)  # some of it is in the book, some is durable
        key = 'semantic_extproc_process_restarts_total{cause="killed",process="authority"}'

        async def back(key: str = key, number: int = number) -> bool:
            return await g.complete() and (await g.metrics()).get(key) == number

        await eventually(back, 30)
    await g.counted("unit-a", clean=asked)


async def test_sigterm_cuts_no_stream_of_any_worker_before_the_grace_ends(gateway: Make) -> None:
    reached, go = asyncio.Event(), asyncio.Event()
    g = await gateway(paused(HEALTHY_STREAM, 6, reached, go), workers=2)
    asked = [asyncio.create_task(g.ask(stream=True)) for _ in range(8)]
    await held(g, 8)
    g.signal(signal.SIGTERM)
    await asyncio.sleep(1.0)
    assert g.process.running, "stopped with streams open"
    assert (await g.get("/healthz"))[0] == 503
    go.set()
    for got in await asyncio.gather(*asked):
        assert got.body == b"".join(HEALTHY_STREAM)

    async def stopped() -> bool:
        return not g.process.running

    await eventually(stopped)
    assert g.log("envoy").count('"verdict":"clean"') == 8
    await g.serve()  # and the last of it was kept
    await g.counted("unit-a", clean=8)


def slow(pieces: list[bytes]) -> Script:
    async def script(request: Request, reply: Reply) -> None:
        await reply.sse(pieces, 0.02)

    return script


async def test_workers_on_unix_sockets(gateway: Make, tmp_path: Path) -> None:
    def sockets(config: dict[str, object]) -> None:
        clusters = config["static_resources"]["clusters"]  # type: ignore[index]
        cluster = next(found for found in clusters if found["name"] == "semantic_extproc")
        cluster["load_assignment"]["endpoints"][0]["lb_endpoints"] = [
            {"endpoint": {"address": {"pipe": {"path": f"{tmp_path}/s{suffix}"}}}}
            for suffix in ("", ".1")
        ]

    g = await gateway(
        slow(HEALTHY_STREAM),
        OTHER,
        workers=2,
        sidecar={"grpc": {"address": f"unix://{tmp_path}/s"}},
        change=sockets,
    )
    await asyncio.gather(*(g.ask(stream=True) for _ in range(10)))
    await g.counted("unit-a", clean=10)
    assert await g.stat("http.unit_a.ext_proc.failure_mode_allowed") == 0


async def test_without_a_supervisor_all_drain_and_end_and_cut_nothing(gateway: Make) -> None:
    reached, go = asyncio.Event(), asyncio.Event()
    g = await gateway(paused(HEALTHY_STREAM, 6, reached, go), workers=2)
    asked = [asyncio.create_task(g.ask(stream=True)) for _ in range(4)]
    await held(g, 4)
    pids = [g.pid(name) for name in ("worker-0", "worker-1", "authority")]
    os.kill(g.process.pid, signal.SIGKILL)
    await asyncio.sleep(0.5)
    go.set()
    for got in await asyncio.gather(*asked):
        assert got.body == b"".join(HEALTHY_STREAM)

    async def ended() -> bool:
        return not any(is_running(pid) for pid in pids)

    await eventually(ended)
    await g.serve()  # the authority heard the last of it
    await g.counted("unit-a", clean=4)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def test_a_worker_that_cannot_listen_ends_serve_with_its_words(tmp_path: Path) -> None:
    base = free_base(2)
    (admin,) = free_ports(1, worker_ports(base, 2))
    with socket.socket() as other:
        other.bind(("127.0.0.1", base + STRIDE))
        other.listen()
        command = [sys.executable, "-m", "extproc", "serve", "--workers", "2"]
        settings = {
            "GRPC__ADDRESS": f"127.0.0.1:{base}",
            "ADMIN__ADDRESS": f"127.0.0.1:{admin}",
            "STORE__KIND": "memory",
        }
        environment = {f"SEMANTIC_EXTPROC_{name}": text for name, text in settings.items()}
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=60, env={**os.environ, **environment}
        )
    assert result.returncode == 1
    assert f"cannot listen on 127.0.0.1:{base + STRIDE}" in result.stderr
    assert "Traceback" not in result.stderr
