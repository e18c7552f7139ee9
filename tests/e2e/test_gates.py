"""The gates against llama.cpp's own server with a real model, healthy and with real faults."""

from __future__ import annotations

import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from extproc.demo import gguf, llamacpp
from extproc.demo.ports import free_ports
from extproc.demo.processes import Processes
from tests.unit.gates.fake import Gates, checks, statuses

pytestmark = [pytest.mark.model, pytest.mark.timeout(300)]

FAULTS: dict[str, Callable[[gguf.Gguf], Any]] = {
    "nan": lambda model: gguf.nan_weight(model, "blk.15.attn_norm.weight"),
    "scaled": lambda model: gguf.scaled(model, "blk.15.ffn_down.weight", 40.0),
    "overflow": lambda model: gguf.scaled(model, "blk.15.attn_v.weight", 40_000.0),
}
"""As a bad kernel or cast leaves a model: one weight is no number; one matrix is far too large;
what one computes leaves the range of the 16-bit floats of its cache."""

LOST = "gate_2_logit_drift_exceeded", "gate_3_deterministic_probe_failed"

Serve = Callable[[str], tuple[str, Path]]


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Starts a server once, by the name of its fault, "" for none: its URL and its log."""
    folder = tmp_path_factory.mktemp("models")
    running: dict[str, tuple[str, Path]] = {}
    with Processes(folder) as processes:

        def start(fault: str) -> tuple[str, Path]:
            if fault in running:
                return running[fault]
            model = llamacpp.find_model()
            if fault:
                gguf.edited_copy(model, folder / f"{fault}.gguf", FAULTS[fault])
                model = folder / f"{fault}.gguf"
            (port,) = free_ports(1)
            name = fault or "healthy"
            options = ["--slots", "1", "--threads", "1", "--context", "768", "--batch", "256"]
            command = [sys.executable, "-m", "extproc.demo.llamacpp", str(model), str(port), "m"]
            processes.start(name, [*command, *options])
            url = f"http://127.0.0.1:{port}"
            _wait(f"{url}/health")
            running[fault] = (url, folder / f"{name}.log")
            return running[fault]

        yield start


def _wait(url: str) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    return
        except (OSError, urllib.error.URLError):
            pass
        assert time.monotonic() < deadline, f"{url} did not become ready"
        time.sleep(0.1)


def run(gates: Gates, serve: Serve, fault: str, which: str = "1-4") -> dict[str, Any]:
    url, log = serve(fault)
    gates.serve(f"{url}/v1")
    gates.serve(serve("")[0], "service.baseline")
    # What a model of 135 million parameters does answer the same way every time.
    gates.gate(
        "gate_3_golden_prompt",
        deterministic_probe="Which city is the capital of France?",
        expected_output="The capital of France is Paris.",
    )
    gates.gate("gate_2_numerical", tokens=8)
    gates.gate("gate_4_long_context", context_lengths=[256, 4096], json_samples=1)
    return gates.report("--gates", which, "--startup-log", str(log))


@pytest.fixture
def gates(tmp_path: Path) -> Gates:
    return Gates(tmp_path)


def test_a_healthy_release_passes_gates_1_to_4(gates: Gates, serve: Serve) -> None:
    report = run(gates, serve, "")
    found = checks(report)
    assert report["exit_code"] == 0, found
    assert [status for status in statuses(report).values() if status != "passed"] == []
    assert found["logit_drift"]["measured"]["mean"] < 0.02
    assert found["context_256"]["status"] == "passed"
    assert "takes 768 tokens" in found["context_4096"]["reason"]
    assert found["json_parse_rate"]["measured"]["rate"] == 1.0
    assert found["prefix_cache"]["measured"]["cached_second"] > 0
    assert report["execution_path"]["quantization"] == "q4_1"
    assert report["execution_path"]["runtime_version"].startswith("llama.cpp-")


@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_fault_loads_and_fails_from_gate_2_on(gates: Gates, serve: Serve, fault: str) -> None:
    # Gate 4 takes its time, and one of them shows it.
    report = run(gates, serve, fault, "1-4" if fault == "nan" else "1-3")
    found, came = checks(report), statuses(report)
    assert report["exit_code"] == 1
    assert came["gate_1_model_load"] == "passed", "it loads, it is ready, and its log is clean"
    assert came["gate_2_numerical"] == "failed"
    assert came["gate_3_golden_prompt"] == "failed"
    assert sorted(report["rollback"]["conditions"]) == sorted(LOST)
    finite = "passed" if fault == "scaled" else "failed"  # salad is made of finite numbers
    assert found["nan_inf"]["status"] == finite
    if fault == "nan":
        assert came["gate_4_long_context"] == "failed"
        assert found["context_256"]["status"] == "failed"
        assert found["prefix_cache"]["status"] == "failed"


def test_without_a_baseline_nan_is_found_by_itself(gates: Gates, serve: Serve) -> None:
    gates.serve(serve("nan")[0])
    report = gates.report("--gates", "2")
    assert checks(report)["nan_inf"]["conditions"] == ["gate_2_nan_inf_detected"]
    assert checks(report)["logit_drift"]["status"] == "skipped"
