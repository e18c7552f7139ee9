"""Quarantine and back, through the whole demo: real Envoy, real sidecar, real engines."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from extproc.demo import prompts
from extproc.demo.http import get_json
from extproc.demo.processes import Processes
from extproc.demo.stage import Stage
from extproc.demo.topology import Build, Topology
from tests.e2e.engines import model_of
from tests.e2e.gateway import eventually
from tests.e2e.test_probes_model import GOLDEN

pytestmark = [pytest.mark.model, pytest.mark.timeout(300)]


class Probed(Topology):
    """The demo's topology, with a prober for unit A's second release."""

    def write(self) -> None:
        """As ever, and the settings of probes."""
        Topology.write(self)
        golden = self.folder / "golden.json"
        golden.write_text(json.dumps(GOLDEN))
        settings = yaml.safe_load(self.sidecar_file.read_text())
        settings["probes"] = {
            "golden": str(golden),
            "interval": 3600,
            "first_pause": 1,
            "longest_pause": 2,
        }
        settings["units"][0]["probe"] = {
            "base_url": f"http://127.0.0.1:{self.rollout.port}/v1",
            "kinds": ["golden", "chat", "logprobs"],
        }
        self.sidecar_file.write_text(yaml.safe_dump(settings))


async def test_a_mended_engine_is_let_in_by_probes_alone_and_a_sick_one_is_not(
    tmp_path: Path,
) -> None:
    topology = Probed.on_free_ports(tmp_path)

    def command(build: Build) -> list[str]:
        model = model_of("nan" if build.corrupt else "healthy", tmp_path)
        arguments = [str(model), str(build.port), build.alias, "--slots", "2"]
        return [sys.executable, "-m", "extproc.demo.llamacpp", *arguments]

    with Processes(tmp_path) as processes:
        async with aiohttp.ClientSession() as session:
            stage = Stage(topology, command, processes, session, lambda text: None)
            api = f"http://127.0.0.1:{topology.sidecar}/api/units/unit-a"

            async def unit() -> dict[str, Any]:
                found: dict[str, Any] = await get_json(session, api)
                return found

            async def attempts() -> int:
                """Probes that failed since."""
                text = await (await session.get(f"{api[: api.index('/api')]}/metrics")).text()
                lines = [line for line in text.splitlines() if "probe_results_total{" in line]
                return sum(
                    int(float(line.rpartition(" ")[2])) for line in lines if '"failed"' in line
                )

            await stage.set_up()
            await stage.serve(topology.rollout)
            await stage.route(topology.rollout)
            for prompt in prompts.PROMPTS[:6]:
                body = prompts.chat(prompt, stream=False)
                async with session.post(topology.url, json=body) as response:
                    await response.read()
            await eventually(lambda: state(unit, "quarantine"), 90)

            before = await attempts()
            await eventually(lambda: more(attempts, before + 2), 90)
            assert (await unit())["state"] == "quarantine", "it is still sick"
            probes = await get_json(session, f"{api}/probes")
            failed = [result for result in probes["results"] if result["outcome"] == "failed"]
            assert failed[0]["release"] == "r2"
            assert failed[0]["findings"]
            answers = (await unit())["counts"]

            await stage.stop(topology.rollout)
            mended = replace(topology.rollout, corrupt=False)
            await stage.serve(mended)
            await eventually(lambda: state(unit, "observe"), 90)
            after = await unit()
            assert after["mode"] is None
            assert after["counts"] == answers, "probes are no traffic"
            assert after["probes"]["passed"] >= 2
            assert after["probes"]["failed"] == 0


async def state(unit: Callable[[], Awaitable[dict[str, Any]]], wanted: str) -> bool:
    return bool((await unit())["state"] == wanted)


async def more(count: Callable[[], Awaitable[int]], least: int) -> bool:
    return await count() >= least
