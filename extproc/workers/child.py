"""One process under a supervisor: ``python -m extproc.workers.child NAME``, told what to be by
lines of JSON on standard input. The end of that input means that the supervisor is gone."""

from __future__ import annotations

import asyncio
import faulthandler
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from extproc.pulse import Pulses, Watchdog

log = logging.getLogger(__name__)

AUTHORITY = "authority"


@dataclass(frozen=True, slots=True)
class Spec:
    """What a process is to be. ``index``: of a worker, from 0; -1 is the authority.

    ``first`` and ``text``: the configuration that the sidecar began with, and that of now.
    ``processes``: what the supervisor counts. ``salt``: of hashes of clients, in hexadecimal.
    """

    name: str
    index: int
    slot: int
    slots: int
    pulses: int
    link: str
    first: str
    text: str
    source: str
    salt: str
    processes: dict[str, Any]

    def line(self) -> bytes:
        """As it is written to the process."""
        return json.dumps(asdict(self)).encode() + b"\n"


class Control:
    """What the supervisor says while the process runs: ``{"text": ...}`` is a new configuration,
    ``{"processes": ...}`` what it counts. ``stop`` is set when it says nothing any more."""

    def __init__(
        self, reload: Callable[[str], None], processes: Callable[[dict[str, Any]], None]
    ) -> None:
        self.stop = asyncio.Event()
        self._reload = reload
        self._processes = processes

    async def listen(self) -> None:
        """Reads until the end."""
        reader = asyncio.StreamReader(limit=1 << 26)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            try:
                said = json.loads(line)
                if "text" in said:
                    self._reload(said["text"])
                if "processes" in said:
                    self._processes(said["processes"])
            except Exception:
                log.exception("what the supervisor said could not be done")
        if not self.stop.is_set():
            log.error("the supervisor is gone: draining")
            self.stop.set()


def main() -> int:
    """Runs until the supervisor says or is gone; 1 when it cannot start."""
    # The terminal's signals go to the whole group; only the supervisor's word counts here.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Where every thread stands, written by the signal itself: also when the interpreter hangs.
    faulthandler.register(signal.SIGUSR2, all_threads=True)
    faulthandler.enable()
    spec = Spec(**json.loads(_line(0)))

    import uvloop

    from extproc import logs
    from extproc.config import parse
    from extproc.health.stores import StoreError
    from extproc.reload import under

    settings = under(parse(spec.first, spec.source), parse(spec.text, spec.source))
    logs.configure(settings.log.level, settings.log.format, spec.name)
    try:
        uvloop.run(_run(spec, settings))
    except (OSError, StoreError) as error:
        print(f"semantic-extproc: {error}", file=sys.stderr)  # noqa: T201
        return 1
    except asyncio.CancelledError:
        pass  # a second signal cut the drain short
    return 0


async def _run(spec: Spec, settings: Any) -> None:
    from extproc import logs
    from extproc.config import parse
    from extproc.persistence import Persistence
    from extproc.processor import Services
    from extproc.reload import under
    from extproc.running import serve
    from extproc.sidecar import Sidecar
    from extproc.workers.hub import Hub
    from extproc.workers.worker import Worker

    process: Sidecar | Worker
    if spec.index < 0:

        def edge(services: Services, persistence: Persistence) -> Hub:
            hub = Hub(spec.link, services)
            persistence.parts["workers"] = hub
            return hub

        process = Sidecar(settings, edge)
        process.services.metrics.processes.take(spec.processes)
    else:
        process = Worker(settings, spec.index, spec.name, spec.link, bytes.fromhex(spec.salt))
    first = parse(spec.first, spec.source)
    metrics = process.services.metrics

    def reload(text: str) -> None:
        later = under(first, parse(text, spec.source))
        process.reconfigure(later)
        logs.configure(later.log.level, later.log.format, spec.name)

    control = Control(reload, metrics.processes.take)
    listening = asyncio.create_task(control.listen(), name="control")
    pulses = Pulses(spec.pulses, spec.slots)
    watchdog = Watchdog(metrics.stalls.inc, lambda: pulses.beat(spec.slot))
    try:
        await serve(process, control.stop, watchdog.start, (signal.SIGTERM,))
    finally:
        listening.cancel()
        watchdog.stop()


def _line(descriptor: int) -> bytes:
    """One line, and not a byte more: the rest is for the event loop."""
    out = bytearray()
    while not out.endswith(b"\n"):
        piece = os.read(descriptor, 1)
        if not piece:
            raise SystemExit("the supervisor is gone")
        out += piece
    return bytes(out)


if __name__ == "__main__":
    sys.exit(main())
