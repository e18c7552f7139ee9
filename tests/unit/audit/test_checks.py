"""Every check finds its fault in a spoilt configuration, and none in a good one."""

from __future__ import annotations

import pytest
import yaml

from extproc.mesh.audit import CATALOGUE, Severity
from tests.unit.audit.good import audited, good, ids, settings
from tests.unit.audit.spoilt import CASES, RUNNING, SPOILT, Case
from tests.unit.audit.test_subsets import CASES as SUBSETS

SEVERITIES = {check.id: check.severity for check in CATALOGUE}


def test_the_shipped_configuration_has_no_fault() -> None:
    report = audited(good(), settings())
    assert ids(report) == set()
    assert [question.answer for question in report.questions][1:] == ["yes", "yes"]


def test_a_shipped_configuration_that_runs_well_has_no_fault() -> None:
    assert ids(audited(good(), settings(), dict(RUNNING))) == set()


def test_every_check_has_a_case() -> None:
    assert {case.id for case in CASES} | {id for id, _, _ in SUBSETS} == set(SEVERITIES)
    assert len({check.id for check in CATALOGUE}) == len(CATALOGUE)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.id} {case.label}".strip())
def test_a_spoilt_configuration_is_found_out(case: Case) -> None:
    config, own = good(), settings()
    case.change(config)
    if case.settings is not None:
        case.settings(own)
    report = audited(config, own, dict(case.stats) if case.stats is not None else None)
    found = [finding for finding in report.findings if finding.id == case.id]
    wanted = Severity(case.severity) if case.severity else SEVERITIES[case.id]
    assert wanted in {finding.severity for finding in found}, ids(report, *Severity)
    assert any(case.at in finding.where for finding in found), [f.where for f in found]
    assert all(finding.where and finding.why and finding.fix for finding in report.findings)
    assert ids(report) <= {case.id, *case.also}


@pytest.mark.parametrize("check", CATALOGUE, ids=lambda check: check.id)
def test_what_is_to_be_put_there_is_yaml(check: object) -> None:
    list(yaml.safe_load_all(check.fix))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "id", ["filter-after-router", "sidecar-stream-duration", "filter-missing", "body-not-sent"]
)
def test_what_blinds_the_sidecar_answers_the_second_question(id: str) -> None:
    config = good()
    SPOILT[id](config)
    assert audited(config, settings()).questions[1].answer == "no"


def test_a_unit_that_is_not_asked_about_keeps_its_traffic_and_the_third_question_says_so() -> None:
    config = good()
    SPOILT["unit-health-disabled"](config)
    evidence = audited(config, settings()).questions[2].evidence
    assert "cluster llm: a quarantine does not reach Envoy" in evidence
