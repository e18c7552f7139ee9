"""The first question: was what runs in production tried as it runs?"""

from __future__ import annotations

from typing import Any

import pytest

from extproc.config import Settings
from extproc.mesh.audit import Question, audit
from tests.unit.audit.good import Config, cluster, good, settings

PROBE = {"base_url": "http://127.0.0.1:8001"}


def asked(own: Config | None, sidecar: Any = None, config: Config | None = None) -> Question:
    """The answer to the first question."""
    wanted = Settings(**own) if own is not None else None
    report = audit([config or good()], "test", settings=wanted, sidecar=sidecar)
    return report.questions[0]


def probed() -> Config:
    """The shipped settings with probes of both units."""
    own = settings()
    for unit in own["units"]:
        unit["probe"] = PROBE
    return own


def unit(id: str, context: str = "long", outcome: str = "passed", current: bool = True) -> Config:
    """A unit as the API shows it, with one probe's result."""
    result = {"class": context, "kind": "long", "outcome": outcome, "current": current}
    return {"id": id, "counts": {}, "classes": {}, "probed": {"results": [result]}}


def test_without_settings_it_cannot_be_told_and_says_what_to_give() -> None:
    question = asked(None)
    assert question.answer == "cannot-tell"
    assert "--config" in question.why
    assert "--sidecar" in question.why


def test_units_that_nobody_probes_are_named_with_their_quantization() -> None:
    question = asked(settings())
    assert question.answer == "no"
    assert "unit-a (q4_1): no probe is configured" in question.why


def test_probes_of_every_unit_are_enough_by_plan() -> None:
    assert asked(probed()).answer == "yes"
    own = probed()
    own["units"][0]["probe"] = {**PROBE, "kinds": ["chat"]}
    assert asked(own).answer == "no"


def test_a_quantization_that_is_not_stated_is_not_covered() -> None:
    own = probed()
    own["units"][0]["quantization"] = ""
    question = asked(own)
    assert question.answer == "no"
    assert "unit-a: quantization is not stated" in question.why


@pytest.mark.parametrize(
    ("found", "answer"),
    [
        ([unit("unit-a"), unit("unit-b")], "yes"),
        ([unit("unit-a"), unit("unit-b", outcome="failed")], "yes"),
        ([unit("unit-a"), unit("unit-b", outcome="skipped")], "no"),
        ([unit("unit-a"), unit("unit-b", outcome="error")], "no"),
        ([unit("unit-a"), unit("unit-b", context="short")], "no"),
        ([unit("unit-a"), unit("unit-b", current=False)], "no"),
        ([unit("unit-a")], "no"),
        (
            [
                unit("unit-a"),
                {"id": "unit-b", "counts": {"clean": 3}, "classes": {"short": {}, "long": {}}},
            ],
            "yes",
        ),
        (
            [unit("unit-a"), {"id": "unit-b", "counts": {"clean": 3}, "classes": {"short": {}}}],
            "no",
        ),
    ],
)
def test_what_the_running_sidecar_has_tried_decides(found: list[Config], answer: str) -> None:
    assert asked(probed(), {"units": found}).answer == answer


def test_a_unit_that_serves_nobody_need_not_be_covered() -> None:
    config = good()
    front = cluster(config)["load_assignment"]
    front["endpoints"] = front["endpoints"][:1]
    assert asked(probed(), {"units": [unit("unit-a")]}, config).answer == "yes"
