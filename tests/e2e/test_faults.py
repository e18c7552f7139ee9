"""What happens when a part dies, hangs, fills up, lies or crawls: real processes, real Envoy."""

from __future__ import annotations

import asyncio
import hashlib
import os
import resource
import signal
import socket
import sys
from pathlib import Path

from extproc.demo.http import answers as answers_http
from extproc.demo.ports import free_ports
from extproc.demo.processes import Process, Processes, wait_ready
from tests.e2e.conftest import HEALTHY, OTHER, Make
from tests.e2e.gateway import CHAT, Gateway, eventually
from tests.e2e.test_fail_open import paused
from tests.e2e.test_workers import BANGS, held, restarted
from tests.e2e.upstream import (
    HEALTHY_STREAM,
    OTHER_STREAM,
    Reply,
    Request,
    Upstream,
    completion,
    stream,
)
from tests.redis_server import RedisServer

FAULTS = Path(__file__).parent / "faults"


def faulty(tmp_path: Path) -> dict[str, str]:
    """The environment of a sidecar that takes faults."""
    path = os.pathsep.join([str(FAULTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {"PYTHONPATH": path, "FAULTS": str(tmp_path)}


def no_errors(found: dict[str, float]) -> bool:
    return not any("internal_errors" in name for name in found)


def resident(pid: int) -> int:
    """Bytes of memory that a process has."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def begin_peak(pid: int) -> None:
    """From here on counts what ``peak`` tells."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak(pid: int) -> int:
    """The most bytes of memory that a process had at any time."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


async def test_an_envoy_killed_in_mid_stream_leaves_nothing_behind(gateway: Make) -> None:
    reached, go = asyncio.Event(), asyncio.Event()
    g = await gateway(paused(HEALTHY_STREAM, 6, reached, go), workers=2)
    asked = [asyncio.create_task(g.ask(stream=True)) for _ in range(6)]
    await held(g, 6)
    await g.kill_envoy()
    await asyncio.gather(*asked, return_exceptions=True)
    go.set()
    await held(g, 0)
    await g.counted("unit-a", unchecked=6)
    await g.start_envoy()
    g.a.script = HEALTHY
    assert (await g.ask(stream=True)).body == b"".join(HEALTHY_STREAM)
    await g.counted("unit-a", unchecked=6, clean=1)
    assert no_errors(await g.metrics())


async def test_a_redis_killed_under_load_costs_no_response(gateway: Make, tmp_path: Path) -> None:
    redis = RedisServer(tmp_path)
    redis.start()
    try:
        g = await gateway(sidecar={"fleet": {"url": redis.url, "instance": "g"}})
        asked = asyncio.gather(*(g.ask(stream=True) for _ in range(40)))
        redis.kill()
        assert all(got.body == b"".join(HEALTHY_STREAM) for got in await asked)

        async def alone() -> bool:
            return (await g.metrics())["semantic_extproc_fleet_up"] == 0

        await eventually(alone)
        g.a.script = BANGS
        for _ in range(4):  # decisions are local
            assert (await g.ask(stream=True)).body == b"".join(OTHER_STREAM)
        await g.become("unit-a", state="quarantine")
        redis.start()

        async def back() -> bool:
            return (await g.metrics())["semantic_extproc_fleet_up"] == 1

        await eventually(back)
    finally:
        redis.stop()


class Engine(Upstream):
    """An engine in a process of its own, which can be killed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(HEALTHY)
        self._processes = Processes(folder)
        self.process: Process

    async def start(self) -> None:
        import aiohttp

        (self.port,) = free_ports(1)
        command = [sys.executable, "-m", "extproc.demo.recorded", "healthy", str(self.port), "a"]
        self.process = self._processes.start("engine", command)
        async with aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{self.port}/health"
            await wait_ready(self.process, answers_http(session, url))

    async def stop(self) -> None:
        self._processes.stop(self.process)


async def test_an_engine_killed_in_mid_stream_is_no_verdict_and_the_next_one_answers(
    tmp_path: Path,
) -> None:
    engine = Engine(tmp_path)
    async with Gateway(tmp_path, engine, Upstream(OTHER), workers=2) as g:
        begun = asyncio.Event()
        asked = asyncio.create_task(g.ask(stream=True, begun=begun))
        await begun.wait()
        os.kill(engine.process.pid, signal.SIGKILL)
        got = await asked
        assert (got.status, got.complete) == (200, False)
        await held(g, 0)
        found = await g.unit("unit-a")
        assert found["counts"]["corrupt"] == 0
        assert (await g.ask(stream=True)).body == b"".join(OTHER_STREAM)
        assert no_errors(await g.metrics())


async def test_a_hung_event_loop_says_where_and_its_process_is_replaced(
    gateway: Make, tmp_path: Path
) -> None:
    server = {"workers": 2, "hang_seconds": 2.5}
    g = await gateway(workers=2, sidecar={"server": server}, environment=faulty(tmp_path))
    os.kill(g.pid("worker-0"), signal.SIGUSR1)
    os.kill(g.pid("authority"), signal.SIGSTOP)  # as a whole: it cannot say anything itself
    everyone = await asyncio.gather(*(g.ask(stream=True) for _ in range(10)))
    assert all(got.body == b"".join(HEALTHY_STREAM) for got in everyone)
    await restarted(g, "worker-0", "hung")
    await restarted(g, "authority", "hung")
    log = g.log("sidecar")
    assert "the event loop has stood still" in log
    assert " _stand_still" in log
    assert "harbour" not in log


async def test_a_full_disk_stops_no_decision_and_all_is_kept_once_there_is_room(
    gateway: Make,
) -> None:
    g = await gateway()
    await g.ask(stream=True)
    await g.counted("unit-a", clean=1)
    authority = g.process.pid
    _, hard = resource.prlimit(authority, resource.RLIMIT_FSIZE)
    resource.prlimit(authority, resource.RLIMIT_FSIZE, (512, hard))  # no file may grow
    g.a.script = BANGS
    for _ in range(5):
        assert (await g.ask(stream=True)).body == b"".join(OTHER_STREAM)
    await g.become("unit-a", state="quarantine", mode="hard")

    async def failing() -> bool:
        return (await g.metrics())["semantic_extproc_store_up"] == 0

    await eventually(failing)
    resource.prlimit(authority, resource.RLIMIT_FSIZE, (hard, hard))

    async def kept() -> bool:
        return (await g.metrics())["semantic_extproc_store_up"] == 1

    await eventually(kept, 40)
    await g.kill()
    await g.serve()
    assert (await g.unit("unit-a"))["state"] == "quarantine"


async def test_clocks_that_jump_change_no_state(gateway: Make, tmp_path: Path) -> None:
    g = await gateway(environment=faulty(tmp_path))
    asked = 0
    for jump in (0, 400 * 86400, -400 * 86400, 0):
        (tmp_path / "clock").write_text(str(jump))
        everyone = await asyncio.gather(*(g.ask(stream=True) for _ in range(5)))
        asked += 5
        assert all(got.body == b"".join(HEALTHY_STREAM) for got in everyone)
        await g.counted("unit-a", clean=asked)
        assert (await g.unit("unit-a"))["state"] == "pass"
    g.a.script = BANGS
    for jump in (400 * 86400, -400 * 86400, 0, 0):
        (tmp_path / "clock").write_text(str(jump))
        assert (await g.ask(stream=True)).body == b"".join(OTHER_STREAM)
    await g.become("unit-a", state="quarantine")
    assert no_errors(await g.metrics())
    _, found = await g.get("/api/evidence?unit=unit-a")
    times = sorted(record["at"] for record in found["evidence"])
    assert len(times) >= 4
    assert times[-1] - times[0] > 799 * 86400, "the clock never jumped"


async def test_a_reader_that_crawls_fills_no_memory(gateway: Make) -> None:
    text = "".join(natural(1 << 19))
    pieces = stream([text[at : at + 4] for at in range(0, len(text), 4)])
    assert sum(map(len, pieces)) > 16 << 20

    async def fast(request: Request, reply: Reply) -> None:
        await reply.sse(pieces)

    g = await gateway(fast)
    wanted = hashlib.sha256(b"".join(pieces)).digest()
    await g.ask(stream=True)
    before = resident(g.process.pid)
    begin_peak(g.process.pid)
    reader, writer = await crawl(g)
    got = bytearray()
    for _ in range(30):
        got += await reader.read(4096)
        await asyncio.sleep(0.05)
    assert (await g.metrics())["semantic_extproc_open_streams"] == 1
    got += await reader.read()
    writer.close()
    assert hashlib.sha256(unchunked(bytes(got))).digest() == wanted
    await g.counted("unit-a", clean=2)  # it was read, all of it
    assert peak(g.process.pid) - before < 12 << 20


def natural(size: int) -> list[str]:
    """Text that is healthy, hence read to its end: Python's own library, in pieces."""
    out, total = [], 0
    for path in sorted(Path(os.__file__).parent.rglob("*.py")):
        text = path.read_text(errors="replace")
        if not text.isascii() or "test" in path.parts:  # tables and broken encodings on purpose
            continue
        out += [text[at : at + 2000] for at in range(0, len(text), 2000)]
        total += len(text)
        if total > size:
            break
    assert total > size
    return out


async def crawl(g: Gateway) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client with as little room as the kernel gives."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    host, _, port = g.front.removeprefix("http://").rpartition(":")
    await asyncio.get_running_loop().sock_connect(client, (host, int(port)))
    reader, writer = await asyncio.open_connection(sock=client, limit=4096)
    body = b'{"stream": true, "messages": []}'
    writer.write(
        f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        + body
    )
    await writer.drain()
    return reader, writer


def unchunked(response: bytes) -> bytes:
    """The body of a chunked response."""
    rest = response.partition(b"\r\n\r\n")[2]
    out = bytearray()
    while (line := rest.partition(b"\r\n"))[0] != b"0":
        size = int(line[0], 16)
        out += line[2][:size]
        rest = line[2][size + 2 :]
    return bytes(out)


OPENINGS = 10_000


async def test_ten_thousand_openings_without_a_pause_leave_nothing_open(gateway: Make) -> None:
    """Forty at a time, one after another as fast as Envoy and two workers take them: on two cores
    that is twenty thousand a minute and more, each of them a stream of its own to a worker."""
    g = await gateway(workers=2)
    names = ("worker-0", "worker-1", "authority")

    async def open_all(number: int) -> None:
        left = iter(range(number))

        async def some() -> None:
            for _ in left:
                assert (await g.ask()).body == HEALTHY_BODY

        await asyncio.gather(*(some() for _ in range(40)))

    await open_all(OPENINGS // 5)  # caches are full after these
    before = {name: (open_files(g.pid(name)), resident(g.pid(name))) for name in names}
    await open_all(OPENINGS - OPENINGS // 5)
    await g.counted("unit-a", clean=OPENINGS)
    await g.counted("unit-b")
    await held(g, 0)
    assert await g.stat("http.unit_a.ext_proc.streams_started") == OPENINGS
    assert await g.stat("http.unit_a.ext_proc.failure_mode_allowed") == 0
    assert await g.stat("http.unit_a.ext_proc.message_timeouts") == 0
    assert await g.stat("cluster.semantic_extproc.upstream_rq_active") == 0
    for name, (files, memory) in before.items():
        assert open_files(g.pid(name)) <= files + 8, name
        assert resident(g.pid(name)) <= memory + (8 << 20), name
    assert no_errors(await g.metrics())


HEALTHY_BODY = completion(
    "The harbour lights went out one after another while the last ferry turned west"
)


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))
