"""The execution path: recorded, approved, and held against what was approved."""

from __future__ import annotations

import getpass
import json
from pathlib import Path

import pytest

from tests.unit.gates.fake import Fake, Gates, checks

VLLM = (Path(__file__).parent / "logs" / "vllm.log").read_text()


def log(gates: Gates, text: str = VLLM) -> str:
    path = gates.folder / "startup.log"
    path.write_text(text)
    return str(path)


def path_of(gates: Gates, release: str, text: str = VLLM) -> dict[str, object]:
    report = gates.report("--gates", "1", "--startup-log", log(gates, text), "--release", release)
    found: dict[str, object] = {
        **checks(report),
        "conditions": report["rollback"]["conditions"],
        "path": report["execution_path"],
        "code": report["exit_code"],
    }
    return found


def test_the_first_release_is_recorded_and_becomes_the_reference_when_approved(
    gates: Gates,
) -> None:
    with Fake().running() as url:
        gates.serve(url)
        found = path_of(gates, "r1")
        assert found["code"] == 0
        assert found["path"]["attention_backend"] == "flashinfer"  # type: ignore[index]
        code, out, _ = gates.run("r1", "--reason", "it was checked by hand", command="approve")
        assert code == 0
        assert "attention_backend = flashinfer" in out
        assert out.splitlines()[1].endswith(": passed")
        lines = (gates.folder / "state" / "approvals.jsonl").read_text().splitlines()
        entry = json.loads(lines[0])
        assert entry["by"] == getpass.getuser()
        assert entry["reason"] == "it was checked by hand"
        assert entry["record"]["release"] == "r1"
        assert path_of(gates, "r2")["code"] == 0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("dtype=torch.bfloat16", "dtype=torch.float16", "dtype_activation was bf16, is fp16"),
        (
            "Using FLASHINFER attention",
            "Using TRITON_ATTN attention",
            "attention_backend was flashinfer, is triton",
        ),
        ("kv_cache_dtype=fp8", "kv_cache_dtype=auto", "kv_cache_dtype was fp8, is auto"),
        ("'fuse_norm_quant': True", "'fuse_norm_quant': False", "fusion_static_quant was true"),
        (
            "FlashInferCutlassNvFp4LinearKernel",
            "MarlinNvFp4LinearKernel",
            "quantization_kernel was FlashInferCutlassNvFp4LinearKernel, is MarlinNvFp4",
        ),
        ("tensor_parallel_size=4", "tensor_parallel_size=2", "parallelism_tp was 4, is 2"),
    ],
)
def test_a_change_nobody_approved_calls_for_a_rollback_though_answers_are_right(
    gates: Gates, old: str, new: str, said: str
) -> None:
    assert old in VLLM
    with Fake().running() as url:
        gates.serve(url)
        path_of(gates, "r1")
        gates.run("r1", "--reason", "fine", command="approve")
        changed = path_of(gates, "r2", VLLM.replace(old, new))
        assert changed["code"] == 1
        assert changed["conditions"] == ["dtype_path_changed_without_approval"]
        assert said in changed["dtype_path"]["reason"]  # type: ignore[index]
        gates.run("r2", "--reason", "measured, and as good", command="approve")
        assert path_of(gates, "r2", VLLM.replace(old, new))["code"] == 0
        # The release that was approved is not another binary under the same name.
        assert path_of(gates, "r2")["code"] == 1


def test_a_change_is_noticed_before_anything_was_ever_approved(gates: Gates) -> None:
    with Fake().running() as url:
        gates.serve(url)
        for dtype, code in (("bf16", 0), ("bf16", 0), ("fp16", 1), ("fp16", 1), ("bf16", 0)):
            gates.config["matrix"] = f'runtime_version = "r1"\ndtype_activation = "{dtype}"\n'
            report = gates.report("--gates", "3")
            assert report["exit_code"] == code, dtype
            hit = ["dtype_path_changed_without_approval"] if code else []
            assert report["rollback"]["conditions"] == hit
        gates.config["matrix"] = 'runtime_version = "r2"\ndtype_activation = "fp16"\n'
        assert gates.report("--gates", "3")["exit_code"] == 1
        assert gates.run("r2", "--reason", "measured", command="approve")[0] == 0
        assert gates.report("--gates", "3")["exit_code"] == 0


def test_gates_of_one_release_may_be_run_apart(gates: Gates) -> None:
    with Fake().running() as url:
        gates.serve(url)
        path_of(gates, "r1")
        gates.report("--gates", "3", "--release", "r1")  # without the log
        _, out, _ = gates.run("r1", "--reason", "fine", command="approve")
    assert "attention_backend = flashinfer" in out


def test_a_fallback_is_explained_by_an_approval_of_it(gates: Gates) -> None:
    line = "WARNING 07-25 13:42:02 [x.py:1] Custom allreduce is disabled because of PCIe\n"
    with Fake().running() as url:
        gates.serve(url)
        found = path_of(gates, "r1", VLLM + line)
        assert found["conditions"] == ["unexplained_kernel_fallback_detected"]
        gates.run("r1", "--reason", "these hosts have no NVLink", command="approve")
        assert path_of(gates, "r1", VLLM + line.replace("13:42:02", "19:00:00"))["code"] == 0
        other = VLLM + line + "WARNING 07-25 13:42:02 [y.py:1] falling back to eager\n"
        assert path_of(gates, "r2", other)["conditions"] == ["unexplained_kernel_fallback_detected"]


def test_what_the_log_says_against_the_configuration_fails(gates: Gates) -> None:
    gates.config["matrix"] = 'attention_backend = "flash_attn"\ndtype_activation = "bf16"\n'
    with Fake().running() as url:
        gates.serve(url)
        found = path_of(gates, "r1")
    assert found["conditions"] == ["dtype_path_changed_without_approval"]
    reason = found["dtype_path"]["reason"]  # type: ignore[index]
    assert reason == "attention_backend is flashinfer, not flash_attn as [matrix] says"


def test_nothing_said_is_nothing_recorded(gates: Gates) -> None:
    gates.config["matrix"] = ""
    with Fake().running() as url:
        gates.serve(url)
        report = gates.report("--gates", "3")
    assert checks(report)["dtype_path"]["status"] == "skipped"


def test_the_numbers_of_an_approved_release_stand_in_for_a_baseline(gates: Gates) -> None:
    fake = Fake()
    with fake.running() as url:
        gates.serve(url)
        gates.report("--gates", "2", "--release", "r1")
        gates.run("r1", "--reason", "good", command="approve")
        same = checks(gates.report("--gates", "2", "--release", "r2"))["logit_drift"]
        assert same["status"] == "passed"
        assert "saved numbers of release r1" in same["reason"]
        fake.shift = -0.4
        report = gates.report("--gates", "2", "--release", "r3")
    assert checks(report)["logit_drift"]["status"] == "failed"
    assert report["rollback"]["conditions"] == ["gate_2_logit_drift_exceeded"]


def test_a_record_holds_no_text_of_prompts_or_answers(gates: Gates) -> None:
    with Fake().running() as url:
        gates.serve(url)
        gates.report("--gates", "2-3", "--release", "r1")
    text = (gates.folder / "state" / "releases" / "r1.json").read_text()
    for word in (" boat", " leaves", "ferry", "OK"):
        assert word not in text


def test_approving_what_was_never_run_is_refused(gates: Gates) -> None:
    code, _, err = gates.run("r9", "--reason", "x", command="approve")
    assert code == 1
    assert "no run of release 'r9'" in err
    assert gates.run("r9", "--reason", " ", command="approve")[0] == 2


def test_releases_are_listed_with_who_approved_them(gates: Gates) -> None:
    with Fake().running() as url:
        gates.serve(url)
        path_of(gates, "r1")
    gates.run("r1", "--reason", "good", "--by", "ada", command="approve")
    code, out, _ = gates.run(command="releases")
    assert code == 0
    assert "flashinfer" in out
    assert "ada: good" in out
    listed = json.loads(gates.run("-o", "json", command="releases")[1])
    assert listed["approvals"][0]["by"] == "ada"
    (gates.folder / "state" / "approvals.jsonl").write_text("nonsense\n")
    code, _, err = gates.run(command="releases")
    assert code == 2
    assert "approvals.jsonl:1" in err
