"""Start-up logs: real lines of real engines, and what they tell."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.gates.startup import normal, read_log
from extproc.gates.startup.log import Fact, alarm_in, data, facts

LOGS = Path(__file__).parent / "logs"


@pytest.mark.parametrize("entry", data()["alarm"], ids=lambda e: e["example"][:50])
def test_every_alarm_has_a_source_and_finds_its_real_line(entry: dict[str, Any]) -> None:
    assert entry["source"]
    assert re.search(entry["pattern"], entry["example"], re.IGNORECASE)
    found = alarm_in(entry["example"])
    assert found is not None
    assert found.kind == entry["kind"]


@pytest.mark.parametrize("entry", data()["harmless"], ids=lambda e: e["example"][:50])
def test_a_line_that_only_looks_like_a_fallback_is_none(entry: dict[str, Any]) -> None:
    assert re.search(entry["pattern"], entry["example"], re.IGNORECASE)
    assert alarm_in(entry["example"]) is None


@pytest.mark.parametrize("entry", data()["fact"], ids=lambda e: f"{e['field']} {e['engine']}")
def test_every_fact_has_a_source_and_is_found_in_its_real_line(entry: dict[str, Any]) -> None:
    assert entry["source"]
    assert entry["field"] in read_log([entry["example"]]).facts


def test_facts_are_read_from_the_data() -> None:
    assert all(isinstance(fact, Fact) for fact in facts())
    assert len(facts()) == len(data()["fact"])


def test_a_real_log_of_llama_cpp_is_healthy_and_tells_its_path() -> None:
    found = read_log((LOGS / "llamacpp.log").open())
    assert found.alarms == []
    assert found.facts == {
        "runtime_version": "llama.cpp-b0-unknown",
        "quantization": "q4_1",
        "kv_cache_dtype": "fp16",
        "attention_backend": "flash_attn_enabled",
    }


def test_a_log_of_vllm_tells_its_path() -> None:
    found = read_log((LOGS / "vllm.log").open())
    assert found.alarms == []
    assert found.facts == {
        "runtime_version": "vllm-0.25.1",
        "dtype_activation": "bf16",
        "parallelism_tp": 4,
        "parallelism_pp": 1,
        "parallelism_dp": 1,
        "quantization": "modelopt_fp4",
        "kv_cache_dtype": "fp8",
        "enforce_eager": False,
        "attention_backend": "flashinfer",
        "fusion_allreduce_rms": True,
        "fusion_static_quant": True,
        "fusions": "norm_quant, act_quant, allreduce_rms",
        "quantization_kernel": "FlashInferCutlassNvFp4LinearKernel",
    }


def test_a_real_log_of_vllm_on_a_cpu_names_the_one_thing_that_was_replaced() -> None:
    found = read_log((LOGS / "vllm_cpu.log").open())
    assert [alarm.key for alarm in found.alarms] == [
        "Model Runner V2 requires Triton; using the V1 model runner instead."
    ]
    assert found.facts == {
        "runtime_version": "vllm-0.32.0",
        "dtype_activation": "bf16",
        "parallelism_tp": 1,
        "parallelism_pp": 1,
        "parallelism_dp": 1,
        "quantization": "none",
        "kv_cache_dtype": "auto",
        "enforce_eager": True,
        "fusion_allreduce_rms": False,
        "fusion_static_quant": True,
        "fusions": "norm_quant, act_quant",
    }


def test_a_log_of_sglang_tells_its_path_and_one_fallback_of_two_workers() -> None:
    found = read_log((LOGS / "sglang.log").open())
    assert [(alarm.kind, alarm.line) for alarm in found.alarms] == [("fallback", 4)]
    assert found.facts == {
        "attention_backend": "flashinfer",
        "dtype_activation": "bf16",
        "quantization": "modelopt_fp4",
        "kv_cache_dtype": "auto",
        "parallelism_tp": 8,
        "parallelism_pp": 1,
        "parallelism_dp": 1,
        "moe_backend": "flashinfer_trtllm",
        "allreduce_backend": "nccl",
    }


def test_the_same_fallback_has_the_same_key_at_every_start() -> None:
    lines = [
        "(Worker_TP0 pid=7490) WARNING 07-25 13:42:01 [topk_topp_sampler.py:46] FlashInfer is not "
        "available. Falling back to the PyTorch-native implementation of top-p & top-k sampling.",
        "\x1b[33m(Worker_TP3 pid=9) WARNING 11-02 03:00:59 [topk_topp_sampler.py:51] FlashInfer is "
        "not available. Falling back to the PyTorch-native implementation of top-p & top-k "
        "sampling.\x1b[0m",
    ]
    keys = set()
    for line in lines:
        (alarm,) = read_log([line]).alarms
        keys.add(alarm.key)
    assert len(keys) == 1


def test_a_configuration_printed_whole_is_no_alarm() -> None:
    dump = "server_args=ServerArgs(enable_fallback=True, fallback='triton', a=1)"
    assert alarm_in(dump) is None
    assert alarm_in("non-default args: {'fallback': True, 'kernel': 'x'}") is None


@pytest.mark.parametrize(
    "line",
    [
        "WARNING implicit fallback: fused allreduce replaced by nccl",
        "kernel fallback to reference implementation",
        "W attention: fell back to eager",
        "ERROR Unrecognized operator: RmsNormQuant",
    ],
)
def test_plain_wordings_are_alarms(line: str) -> None:
    assert alarm_in(line) is not None


@pytest.mark.parametrize(
    ("field", "one", "other"),
    [
        ("dtype_activation", "torch.bfloat16", "bf16"),
        ("dtype_rmsnorm_weight", "float32", "fp32"),
        ("kv_cache_dtype", "F16", "fp16"),
        ("attention_backend", "FLASH_ATTN", "flash-attn"),
        ("allreduce_backend", "flashinfer-trtllm", "FLASHINFER_TRTLLM"),
        ("runtime_version", "vLLM v0.25.1", "vllm-0.25.1"),
        ("parallelism_tp", "4", 4),
        ("enforce_eager", "True", True),
    ],
)
def test_spellings_of_one_value_are_one_value(field: str, one: Any, other: Any) -> None:
    assert normal(field, one) == normal(field, other)


@given(st.lists(st.text(max_size=200), max_size=20))
def test_no_line_makes_the_reader_raise(lines: list[str]) -> None:
    assert read_log(lines).lines == len(lines)
