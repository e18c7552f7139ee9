"""The shipped rules: promtool takes them, and each alert fires when it must and only then."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.observability.catalogue import catalogue, known_series
from tests.observability.tools import binary

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "envoy/prometheus"

RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((FOLDER / "rules.yaml").read_text())["groups"]
    for rule in group["rules"]
]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}


def promtool(*arguments: str) -> str:
    command = [binary("promtool", "prometheus"), *arguments]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_takes_the_rules() -> None:
    assert f"{len(RULES)} rules found" in promtool("check", "rules", "rules.yaml")


def test_the_unit_tests_of_the_rules_pass() -> None:
    promtool("test", "rules", "rules_test.yaml")


def test_each_alert_is_tested_to_fire_and_to_stay_silent() -> None:
    fires: set[str] = set()
    silent: set[str] = set()
    for test in yaml.safe_load((FOLDER / "rules_test.yaml").read_text())["tests"]:
        for case in test.get("promql_expr_test", ()):
            for name in re.findall(r'alertname="(\w+)"', case["expr"]):
                (fires if case["exp_samples"] else silent).add(name)
    assert fires == set(ALERTS)
    assert silent >= set(ALERTS)


def test_rules_name_only_metrics_that_exist() -> None:
    records = {rule["record"] for rule in RULES if "record" in rule}
    for rule in RULES:
        used = set(re.findall(r"\b(?:\w+:)?semantic_extproc_\w+(?::\w+)?", rule["expr"]))
        assert not used - known_series() - records, rule.get("alert", rule.get("record"))


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_how_grave_it_is_and_what_to_do(name: str) -> None:
    alert = ALERTS[name]
    assert alert["labels"].keys() == {"severity"}
    assert alert["labels"]["severity"] in ("critical", "warning", "info")
    assert alert["annotations"].keys() == {"summary", "description", "runbook_url"}
    page, _, anchor = alert["annotations"]["runbook_url"].partition("#")
    assert anchor == name.lower()
    assert re.search(rf"^### {name}$", (ROOT / page).read_text(), re.M), "no entry in the runbook"


def test_the_runbook_names_no_alert_that_is_gone() -> None:
    text = (ROOT / "docs/runbook.md").read_text()
    assert set(re.findall(r"\bSemantic[A-Z]\w+", text)) <= set(ALERTS)


def test_the_catalogue_is_not_empty() -> None:
    assert len(catalogue()) > 20
