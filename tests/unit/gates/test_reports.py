"""JUnit, Markdown and the table, also of what reports are not used to."""

from __future__ import annotations

from xml.etree import ElementTree as Tree

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from extproc.gates.conditions import Condition
from extproc.gates.outcome import Check, GateResult, Status, failed, passed, skipped, undecided
from extproc.gates.report import junit, markdown, table
from extproc.gates.rollback import Delivery
from extproc.gates.run import Report, Subject

REPORT = Report(
    run="0123",
    subject=Subject("r2", "m", "http://a/v1", "http://b", ("KEY is not set",)),
    started="2026-11-29T10:00:00+00:00",
    finished="2026-11-29T10:01:00+00:00",
    gates=(
        GateResult(1, "gate_1_model_load", (passed("ready_endpoint", "ready after 1.0 s"),)),
        GateResult(
            3,
            "gate_3_golden_prompt",
            (
                Check("prompt:1", Status.MISSED, "another answer"),
                failed("pass_rate", "0 of 1 | <b>", Condition.PROBE, threshold=1.0),
            ),
        ),
        GateResult(5, "gate_5_shadow_canary", (undecided("task_success", "too small"),)),
        GateResult(0, "execution_path", (skipped("dtype_path", "nothing tells"),)),
    ),
    rollback=(Condition.PROBE,),
    deliveries=(Delivery("webhook", "failed", "it answered HTTP 500"),),
    path={"dtype_activation": "bf16"},
)


def test_junit_counts_what_failed_and_what_was_skipped() -> None:
    root = Tree.fromstring(junit(REPORT))
    assert root.tag == "testsuites"
    assert (root.get("tests"), root.get("failures")) == ("5", "1")
    suites = {suite.get("name"): suite for suite in root}
    golden = suites["gate_3_golden_prompt"]
    assert (golden.get("tests"), golden.get("failures"), golden.get("skipped")) == ("2", "1", "0")
    (failure,) = golden.iter("failure")
    assert failure.get("message") == "0 of 1 | <b>"
    assert failure.get("type") == "gate_3_deterministic_probe_failed"
    (left_out,) = suites["gate_5_shadow_canary"].iter("skipped")
    assert left_out.get("message") == "undecided: too small"


def test_markdown_says_what_failed_and_what_was_done() -> None:
    text = markdown(REPORT)
    assert text.startswith("## ❌ Release gates: failed\n")
    assert "| 3 golden prompt | ❌ failed | 1 failed, 1 missed |" in text
    assert r"`pass_rate`: 0 of 1 \| &lt;b>" in text
    assert "- webhook: failed (it answered HTTP 500)" in text
    assert "| `dtype_activation` | bf16 |" in text
    assert "KEY is not set" in text.replace("\\", "")


def test_the_table_ends_with_the_result() -> None:
    console = Console(width=120)
    with console.capture() as capture:
        for piece in table(REPORT):
            console.print(piece)
    assert capture.get().rstrip().splitlines()[-1].strip() == "release r2: failed"


@given(st.text(), st.text(), st.dictionaries(st.text(), st.text() | st.floats()))
def test_any_text_makes_a_report_that_can_be_read(
    name: str, reason: str, measured: dict[str, str | float]
) -> None:
    check = failed(name, reason, measured=measured)
    report = Report(
        "1", Subject("r", "m", "u"), "t", "t", (GateResult(3, "gate_3_golden_prompt", (check,)),)
    )
    (case,) = Tree.fromstring(junit(report)).iter("testcase")
    assert case.find("failure") is not None
    assert "\n- ❌ " in markdown(report)
    assert Check.from_dict(check.as_dict()).name == name
