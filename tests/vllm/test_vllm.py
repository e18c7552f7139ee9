"""Probes of a real vLLM on the CPU, healthy and with a NaN in one weight: ``make test-vllm``."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from extproc.demo.llamacpp import find_model
from extproc.demo.ports import free_ports
from extproc.demo.processes import Process, Processes, wait_ready
from extproc.probes import Capabilities, Client, Reply, Target, Way, discover
from tests.e2e.engines import answers
from tests.unit.gates.fake import Gates, checks, statuses

PYTHON = os.environ.get("SEMANTIC_EXTPROC_VLLM", "")
"""The Python that has vLLM; ``make test-vllm`` sets it."""

pytestmark = [
    pytest.mark.skipif(not PYTHON, reason="vLLM takes 3.5 GB: make test-vllm"),
    pytest.mark.timeout(1800),
]

GOLDEN = [
    {"prompt": "Why is the sky blue?", "expected": "sky", "match": "contains", "max_tokens": 24}
]
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_COMPUTE_NANS_IN_LOGITS": "1",
}
OPTIONS = "--enforce-eager --max-model-len 2048 --enable-auto-tool-choice --tool-call-parser hermes"


class Servers:
    """vLLM with the healthy model, and with a NaN in one weight; each is started when it is first
    asked for, and ends the other: two are too many for a small machine."""

    def __init__(self, folder: Path, processes: Processes) -> None:
        self._folder = folder
        self._processes = processes
        self._running: tuple[str, str, Process] | None = None

    def url(self, flavour: str) -> str:
        """The base URL of a flavour."""
        if self._running is not None and self._running[0] == flavour:
            return self._running[1]
        if self._running is not None:
            self._processes.stop(self._running[2])
        model = self._folder / flavour
        if not model.exists():
            self._convert(model, "nan" if flavour == "nan" else "")
        (port,) = free_ports(1)
        url = f"http://127.0.0.1:{port}"
        command = [PYTHON, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
        command += [
            "--served-model-name",
            "smollm2",
            "m",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
        ]
        process = self._processes.start(
            f"vllm-{flavour}", [*command, *OPTIONS.split()], ENVIRONMENT
        )

        async def ready() -> bool:
            return await asyncio.to_thread(answers, f"{url}/health")

        asyncio.run(wait_ready(process, ready, 900))
        self._running = flavour, url, process
        return url

    def log(self, flavour: str) -> Path:
        """What a flavour's server wrote."""
        return self._folder / f"vllm-{flavour}.log"

    def _convert(self, target: Path, fault: str) -> None:
        command = [PYTHON, str(Path(__file__).with_name("convert.py"))]
        command += [str(find_model()), str(target)]
        if fault:
            command += ["--nan", "model.layers.15.input_layernorm.weight"]
        subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    folder = tmp_path_factory.mktemp("vllm")
    with Processes(folder) as processes:
        yield Servers(folder, processes)


def probe(folder: Path, url: str, *arguments: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """``semantic-extproc probe``: exit code, and results by kind."""
    golden = folder / "golden.json"
    golden.write_text(json.dumps(GOLDEN))
    command = [sys.executable, "-m", "extproc", "probe", "--url", f"{url}/v1", "--json"]
    command += ["--golden", str(golden), "--class", "short", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    print(done.stdout, done.stderr)
    return done.returncode, {result["kind"]: result for result in results}


def test_what_vllm_offers_is_found_out(servers: Servers) -> None:
    found, reply = asyncio.run(_asked(servers.url("healthy")))
    assert (found.engine, found.max_context) == ("vllm", 2048)
    assert all(found.offers(way) for way in (Way.ECHO, Way.PROMPT, Way.COMPLETION, Way.CHAT))
    assert found.tokenize
    assert found.counters
    first, *rest = reply.prompt_logprobs
    assert first.logprob is None
    assert len(rest) == reply.usage.prompt - 1
    assert all(token.logprob is not None and len(token.top) >= 2 for token in rest)


async def _asked(url: str) -> tuple[Capabilities, Reply]:
    async with Client(Target(url)) as client:
        reply = await client.complete(
            "The sun rises in the east.", max_tokens=2, temperature=0, prompt_logprobs=2
        )
        return await discover(client), reply


def test_a_healthy_vllm_passes(servers: Servers, tmp_path: Path) -> None:
    code, found = probe(tmp_path, servers.url("healthy"))
    outcomes = {kind: result["outcome"] for kind, result in found.items()}
    assert outcomes.pop("embedding") == "skipped"
    # A model of 135M parameters keeps the grammar of a call, not always its schema.
    tools = outcomes.pop("tools")
    assert set(outcomes.values()) == {"passed"}, found
    assert tools == "passed" or not found["tools"]["proof"], found["tools"]
    assert code == int(tools == "failed")
    assert {result["corroborated"] for result in found.values() if result["requests"]} == {0.0}


def gated(folder: Path, servers: Servers, flavour: str) -> dict[str, Any]:
    """The report of gates 1 to 4, the server being its own baseline."""
    gates = Gates(folder)
    url = servers.url(flavour)
    gates.serve(f"{url}/v1")
    gates.serve(url, "service.baseline")
    gates.gate(
        "gate_3_golden_prompt",
        deterministic_probe="Which city is the capital of France?",
        expected_output="The capital of France is Paris.",
    )
    # A model of 135M parameters makes calls by no schema.
    gates.gate(
        "gate_4_long_context",
        context_lengths=[256, 1024, 4096],
        json_samples=1,
        tool_call_schema_check=False,
    )
    return gates.report("--gates", "1-4", "--startup-log", str(servers.log(flavour)))


def test_a_healthy_vllm_passes_the_gates_but_for_a_fallback_that_is_real(
    servers: Servers, tmp_path: Path
) -> None:
    """On a CPU vLLM falls back, and says so: nobody has explained that yet."""
    report = gated(tmp_path, servers, "healthy")
    print(json.dumps(report))
    missed = {name for name, check in checks(report).items() if check["status"] == "failed"}
    assert missed == {"startup_log"}, checks(report)
    assert "requires Triton" in checks(report)["startup_log"]["reason"]
    assert list(statuses(report).values())[1:] == ["passed"] * 4
    assert report["execution_path"]["runtime_version"].startswith("vllm-0.32")
    assert report["execution_path"]["dtype_activation"] == "bf16"


def test_a_nan_in_one_weight_fails_and_vllm_counts_it_too(servers: Servers, tmp_path: Path) -> None:
    code, found = probe(tmp_path, servers.url("nan"))
    assert code == 1
    failed = {kind for kind, result in found.items() if result["outcome"] == "failed"}
    assert failed == {"golden", "chat", "long", "json", "tools", "logprobs"}
    assert all(found[kind]["proof"] for kind in failed)
    assert all(found[kind]["corroborated"] >= 1 for kind in failed)


def test_a_nan_in_one_weight_loads_and_fails_from_gate_2_on(
    servers: Servers, tmp_path: Path
) -> None:
    report = gated(tmp_path, servers, "nan")
    print(json.dumps(report))
    assert report["exit_code"] == 1
    assert checks(report)["ready_endpoint"]["status"] == "passed"
    assert list(statuses(report).values())[1:4] == ["failed"] * 3
    assert checks(report)["nan_inf"]["status"] == "failed"
