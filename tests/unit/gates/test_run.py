"""``gate run`` against small servers that are well, slow, broken, or something else altogether."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from extproc.cli import app as command_line
from extproc.demo.ports import free_ports
from tests.unit.gates.fake import Fake, Gates, checks, statuses


def test_a_healthy_release_passes_beside_its_baseline(gates: Gates) -> None:
    with Fake().running() as url, Fake().running() as base:
        gates.serve(f"{url}/v1")
        gates.serve(base, "service.baseline")
        report = gates.report("--gates", "1-4")
    assert report["exit_code"] == 0
    assert report["result"] == "passed"
    assert set(statuses(report).values()) == {"passed"}
    found = checks(report)
    assert found["logit_drift"]["measured"]["mean"] == 0
    assert "chat logprobs" in found["logit_drift"]["reason"]
    assert found["context_16384"]["status"] == "skipped"
    assert "8192" in found["context_16384"]["reason"]
    assert report["rollback"]["conditions"] == []


def test_both_base_urls_with_and_without_v1_are_the_same_server(gates: Gates) -> None:
    with Fake().running() as url:
        for given in (url, f"{url}/v1", f"{url}/v1/"):
            gates.serve(given)
            assert gates.report("--gates", "3")["exit_code"] == 0


def test_bangs_instead_of_ok_fail_gate_3_and_call_for_a_rollback(gates: Gates) -> None:
    with Fake(answer="!" * 16, logprobs="").running() as url:
        gates.serve(url)
        report = gates.report("--gates", "1-3")
    assert report["exit_code"] == 1
    assert statuses(report)["gate_1_model_load"] == "passed"
    assert statuses(report)["gate_3_golden_prompt"] == "failed"
    assert report["rollback"]["conditions"] == ["gate_3_deterministic_probe_failed"]


def test_numbers_that_are_nan_fail_gate_2_also_without_a_baseline(gates: Gates) -> None:
    with Fake(nan=True).running() as url:
        gates.serve(url)
        report = gates.report("--gates", "2")
    assert checks(report)["nan_inf"]["status"] == "failed"
    assert checks(report)["nan_inf"]["conditions"] == ["gate_2_nan_inf_detected"]
    assert "baseline" in checks(report)["logit_drift"]["reason"]


@pytest.mark.parametrize(("constant", "fails"), [(-10.803, True), (-0.1, False)])
def test_uniform_logits_fail_and_a_constant_that_a_proxy_fills_in_does_not(
    gates: Gates, constant: float, fails: bool
) -> None:
    with Fake(constant=constant).running() as url:
        gates.serve(url)
        report = gates.report("--gates", "2-4")
    found = "failed" if fails else "passed"
    assert checks(report)["nan_inf"]["status"] == found
    assert checks(report)["context_1024"]["status"] == found


@pytest.mark.parametrize("way", ["chat", "echo"])
@pytest.mark.parametrize(("shift", "fails"), [(-0.01, False), (-0.03, True)])
def test_drift_is_held_against_its_tolerance(
    gates: Gates, way: str, shift: float, fails: bool
) -> None:
    with Fake(shift=shift, logprobs=way).running() as url, Fake(logprobs=way).running() as base:
        gates.serve(url)
        gates.serve(base, "service.baseline")
        report = gates.report("--gates", "2")
    drift = checks(report)["logit_drift"]
    assert drift["status"] == ("failed" if fails else "passed")
    assert drift["measured"]["mean"] == pytest.approx(abs(shift), abs=1e-4)
    hit = ["gate_2_logit_drift_exceeded"] if fails else []
    assert report["rollback"]["conditions"] == hit


def test_a_nan_beside_a_healthy_baseline_is_infinite_drift(gates: Gates) -> None:
    with Fake(nan=True).running() as url, Fake().running() as base:
        gates.serve(url)
        gates.serve(base, "service.baseline")
        report = gates.report("--gates", "2")
    assert checks(report)["logit_drift"]["status"] == "failed"
    assert report["rollback"]["conditions"] == ["gate_2_logit_drift_exceeded"]


def test_a_server_without_log_probabilities_is_left_out_and_said(gates: Gates) -> None:
    with Fake(logprobs="").running() as url, Fake().running() as base:
        gates.serve(url)
        gates.serve(base, "service.baseline")
        report = gates.report("--gates", "2-3")
        assert report["exit_code"] == 0
        assert statuses(report)["gate_2_numerical"] == "skipped"
        assert "candidate offers none" in checks(report)["logit_drift"]["reason"]
        gates.gate("gate_2_numerical", required=True)
        assert gates.report("--gates", "2-3")["exit_code"] == 1


def test_what_vllm_counts_itself_is_believed(gates: Gates) -> None:
    with Fake(corrupted=7).running() as url:
        gates.serve(url)
        found = checks(gates.report("--gates", "2"))["nan_inf"]
    assert found["status"] == "failed"
    assert "vLLM itself counts" in found["reason"]


def test_a_strict_server_that_knows_no_such_fields_is_left_out_and_said(gates: Gates) -> None:
    refuses = ("logprobs", "tools", "response_format")
    with Fake(refuses=refuses).running() as url, Fake().running() as base:
        gates.serve(url)
        gates.serve(base, "service.baseline")
        report = gates.report("--gates", "2-4")
    found = checks(report)
    assert report["exit_code"] == 0
    for name in ("nan_inf", "logit_drift", "json_parse_rate", "tool_call_schema"):
        assert found[name]["status"] == "skipped", name
    assert "Unrecognized request argument" in found["nan_inf"]["reason"]


def test_another_tensor_parallel_degree_is_compared_where_it_has_an_endpoint(
    gates: Gates,
) -> None:
    with Fake(shift=-0.5).running() as url, Fake().running() as one:
        gates.config["matrix"] = "parallelism_tp = 4\n"
        gates.serve(url)
        gates.serve(one, "service.tp.1")
        report = gates.report("--gates", "2")
        assert checks(report)["tp_1"]["status"] == "failed"
        assert "tp_4" not in checks(report)
        assert report["rollback"]["conditions"] == ["gate_2_logit_drift_exceeded"]
        del gates.config["service.tp.1"]
        skipped = checks(gates.report("--gates", "2"))["tp_1"]
        assert skipped["status"] == "skipped"
        assert "[service.tp.1]" in skipped["reason"]


def test_nobody_there_is_a_failed_gate_with_the_reason(gates: Gates) -> None:
    (port,) = free_ports(1)
    gates.serve(f"http://127.0.0.1:{port}")
    gates.gate("gate_1_model_load", timeout_sec=1)
    report = gates.report("--gates", "1-4")
    assert report["exit_code"] == 1
    assert statuses(report)["gate_1_model_load"] == "failed"
    assert "nobody listens there" in checks(report)["ready_endpoint"]["reason"]
    assert statuses(report)["gate_3_golden_prompt"] == "skipped"
    alone = gates.report("--gates", "3")
    assert alone["exit_code"] == 1
    assert "candidate" in checks(alone)["pass_rate"]["reason"]


@pytest.mark.parametrize(
    ("trouble", "word"),
    [
        ({"html": True}, "no JSON"),
        ({"key": "sk-the-secret"}, "401"),
        ({"models": []}, "lists no model"),
        ({"health": 503}, "503"),
    ],
)
def test_a_server_that_is_not_ready_says_why(
    gates: Gates, trouble: dict[str, Any], word: str
) -> None:
    with Fake(**trouble).running() as url:
        gates.serve(url)
        gates.gate("gate_1_model_load", timeout_sec=1)
        report = gates.report("--gates", "1-3")
    assert report["exit_code"] == 1
    assert word in checks(report)["ready_endpoint"]["reason"]


def test_a_server_is_waited_for(gates: Gates) -> None:
    fake = Fake(ready_after=3)
    with fake.running() as url:
        gates.serve(url)
        assert gates.report("--gates", "1")["exit_code"] == 0
    assert fake.seen["health"] > 3


@pytest.mark.parametrize("status", [400, 500])
def test_an_error_status_fails_what_was_asked(gates: Gates, status: int) -> None:
    with Fake(status=status).running() as url, Fake().running() as base:
        gates.serve(url)
        gates.serve(base, "service.baseline")
        report = gates.report("--gates", "1-4")
    assert statuses(report)["gate_1_model_load"] == "passed"
    assert statuses(report)["gate_3_golden_prompt"] == "failed"
    assert f"status {status}: it broke" in checks(report)["pass_rate"]["reason"]
    assert statuses(report)["gate_4_long_context"] == "failed"


def test_a_baseline_that_does_not_answer_fails_without_a_drift_condition(gates: Gates) -> None:
    (port,) = free_ports(1)
    with Fake().running() as url:
        gates.serve(url)
        gates.serve(f"http://127.0.0.1:{port}", "service.baseline")
        report = gates.report("--gates", "2")
    assert checks(report)["nan_inf"]["status"] == "passed"
    assert checks(report)["logit_drift"]["status"] == "failed"
    assert checks(report)["logit_drift"]["reason"].startswith("baseline: ")
    assert report["rollback"]["conditions"] == []


def test_a_log_is_told_what_still_runs(gates: Gates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("extproc.cli.gate.running"), "SILENCE", 0.0)
    with Fake().running() as url:
        gates.serve(url)
        assert "still running" in gates.run("--gates", "3")[2]
        assert "still running" not in gates.run("--gates", "3", "--json")[2]


def test_an_answer_that_takes_too_long_is_a_failure(gates: Gates) -> None:
    with Fake(delay=1.5).running() as url:
        gates.serve(url)
        gates.gate("gate_3_golden_prompt", timeout_sec=0.5)
        report = gates.report("--gates", "3")
    assert report["exit_code"] == 1
    assert "0.5 s" in checks(report)["pass_rate"]["reason"]


def test_a_server_that_hangs_is_asked_once(gates: Gates) -> None:
    fake = Fake(delay=3)
    with fake.running() as url:
        gates.serve(url)
        gates.gate("gate_1_model_load", timeout_sec=0.5)
        report = gates.report("--gates", "1-4")
    assert report["exit_code"] == 1
    assert sum(fake.seen.values()) - fake.seen["health"] == 1


def test_a_model_under_another_name_is_accepted_if_the_server_answers_to_it(
    gates: Gates,
) -> None:
    with Fake(models=["other"]).running() as url:
        gates.serve(url)
        found = checks(gates.report("--gates", "1"))["weights_load"]
    assert found["status"] == "passed"
    assert "lists other, and answers to 'm'" in found["reason"]


def test_no_key_is_ever_shown(gates: Gates, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-live-0123456789"
    monkeypatch.setenv("THE_KEY", secret)
    gates.config["rollback"] = 'notify_webhook = "http://127.0.0.1:9/hook-secret-path"\n'
    texts: list[str] = []
    files = [gates.folder / "junit.xml", gates.folder / "gates.md"]
    more = ["--junit", str(files[0]), "--markdown", str(files[1])]
    for key in (secret, "another-" + secret):  # the second refuses us, and says what it expected
        with Fake(key=key, answer=f"no {secret}").running() as url:
            gates.serve(url, api_key_env="THE_KEY")
            gates.gate("gate_1_model_load", timeout_sec=1)
            texts += gates.run("--gates", "1-3", "--show-answers", *more)[1:]
            texts += gates.run("--gates", "1-3", "-o", "json", "--show-answers", *more)[1:]
    texts += [path.read_text() for path in gates.folder.rglob("*") if path.is_file()]
    assert not [text for text in texts if secret in str(text)]
    assert not [text for text in texts[:8] if "hook-secret-path" in str(text)]


def test_an_unset_key_is_a_note(gates: Gates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_LOCAL_KEY", raising=False)
    with Fake().running() as url:
        gates.serve(url, api_key_env="VLLM_LOCAL_KEY")
        report = gates.report("--gates", "3")
    assert report["exit_code"] == 0
    assert "VLLM_LOCAL_KEY is not set" in report["notes"][0]


def test_golden_prompts_of_ones_own_count_too(gates: Gates) -> None:
    path = gates.folder / "golden.jsonl"
    path.write_text('{"prompt": "Say OK", "expected": "OK"}\n{"prompt": "2+2", "expected": "4"}\n')
    with Fake().running() as url:
        gates.serve(url)
        report = gates.report("--gates", "3", "--golden", str(path))
        rate = checks(report)["pass_rate"]
        assert rate["status"] == "failed"
        assert rate["measured"] == {"asked": 3, "met": 2, "rate": pytest.approx(2 / 3, abs=1e-6)}
        assert checks(report)["prompt:2"]["status"] == "missed"
        gates.gate("gate_3_golden_prompt", pass_rate_threshold=0.6)
        assert gates.report("--gates", "3", "--golden", str(path))["exit_code"] == 0


def test_answers_are_shown_only_when_asked_for(gates: Gates) -> None:
    with Fake(answer="a private matter").running() as url:
        gates.serve(url)
        _, out, err = gates.run("--gates", "3")
        assert "private" not in out + err
        assert "private" not in "".join(
            p.read_text() for p in gates.folder.rglob("*.json") if p.name != "settings.json"
        )
        assert "private" in gates.run("--gates", "3", "--show-answers")[1]


def test_a_replaced_kernel_fails_gate_1_even_though_answers_are_right(gates: Gates) -> None:
    log = gates.folder / "startup.log"
    log.write_text("INFO ready\nWARNING: unrecognized operator X\nFalling back to eager kernel\n")
    with Fake().running() as url:
        gates.serve(url)
        report = gates.report("--gates", "1-3", "--startup-log", str(log))
    assert checks(report)["startup_log"]["measured"]["unexplained"] == 2
    assert report["rollback"]["conditions"] == ["unexplained_kernel_fallback_detected"]


def test_unusable_input_is_named_and_ends_with_2(gates: Gates) -> None:
    gates.serve("http://127.0.0.1:1", surprise="1")
    gates.settings["gate_config"]["gate_3_golden_prompt"] = {"pass_rate": 1}
    code, out, err = gates.run()
    assert code == 2
    assert out == ""
    assert re.search(
        r"settings\.json:1: gate_config\.gate_3_golden_prompt\.pass_rate: no such", err
    )
    assert re.search(r"config\.toml:\d+: service\.under_test\.surprise: no such setting", err)
    assert gates.run("--gates", "6")[0] == 2
    gates.serve("http://127.0.0.1:1")
    gates.settings = {}
    for arguments in (
        ("--startup-log", "/nowhere"),
        ("--golden", "/nowhere"),
        ("--junit", "/nowhere/x.xml"),
        ("--state", "/proc/nowhere"),
    ):
        code, _, err = gates.run("--gates", "3", *arguments)
        assert code == 2, arguments
        assert "nowhere" in err


def test_without_a_place_for_state_a_run_is_still_a_run(
    gates: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    with Fake().running() as url:
        gates.serve(url)
        files = gates.files()[:4]
        done = CliRunner().invoke(command_line, ["gate", "run", *files, "--gates", "3"])
    assert done.exit_code == 0
    assert "nothing is kept of this run" in done.stderr
    assert "--state" in done.stderr


def test_fail_fast_leaves_out_what_follows(gates: Gates) -> None:
    fake = Fake(answer="no")
    with fake.running() as url:
        gates.serve(url)
        report = gates.report("--gates", "3-4", "--fail-fast")
    assert statuses(report)["gate_4_long_context"] == "skipped"
    assert len(fake.chats) == 1


def test_a_disabled_gate_is_not_run(gates: Gates) -> None:
    for name in ("gate_1_model_load", "gate_2_numerical", "gate_4_long_context"):
        gates.gate(name, enabled=False)
    with Fake().running() as url:
        gates.serve(url)
        report = gates.report("--gates", "1-4")
    assert list(statuses(report)) == ["gate_3_golden_prompt", "execution_path"]


def test_the_json_report_has_the_documented_shape(gates: Gates) -> None:
    with Fake().running() as url:
        gates.serve(url)
        report = gates.report("--gates", "3")
    assert list(report) == [
        *("version", "run", "release", "model", "candidate", "baseline", "started", "finished"),
        *("result", "exit_code", "notes", "gates", "execution_path", "rollback"),
    ]
    assert list(report["gates"][0]) == [
        *("gate", "name", "status", "seconds", "resumed_checks", "checks"),
    ]
    assert list(report["gates"][0]["checks"][0]) == [
        *("name", "status", "reason", "measured", "threshold", "conditions", "answered", "seconds"),
    ]
    assert (report["version"], report["release"], report["model"]) == (1, "r1", "m")


def test_the_shipped_examples_are_read_as_they_are(gates: Gates) -> None:
    shared = Path(__file__).resolve().parents[3] / "examples" / "gates"
    from extproc.gates.reading import read_settings, read_targets

    settings = read_settings(shared / "settings.json")
    targets = read_targets(shared / "config.toml")
    assert json.loads((shared / "settings.json").read_text())["rollback_conditions"] == [
        condition.value for condition in settings.rollback_conditions
    ]
    assert targets.release == "vllm-0.25.1"
    assert targets.matrix.declared()["fusion_allreduce_rms"] is True
