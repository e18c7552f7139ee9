"""The shipped dashboard as Grafana reads it; its queries are in tests/e2e/test_prometheus.py."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

DASHBOARD: dict[str, Any] = json.loads(
    (Path(__file__).resolve().parents[2] / "envoy/grafana/semantic-extproc.json").read_text()
)
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
VARIABLES = {variable["name"] for variable in DASHBOARD["templating"]["list"]}


def test_it_can_be_imported_beside_others() -> None:
    assert DASHBOARD["uid"] == "semantic-extproc"
    assert "id" not in DASHBOARD, "an id belongs to one Grafana"
    assert DASHBOARD["schemaVersion"] >= 41


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    for one, two in combinations([panel["gridPos"] for panel in PANELS], 2):
        beside = one["x"] + one["w"] <= two["x"] or two["x"] + two["w"] <= one["x"]
        below = one["y"] + one["h"] <= two["y"] or two["y"] + two["h"] <= one["y"]
        assert beside or below, (one, two)
    assert max(panel["gridPos"]["x"] + panel["gridPos"]["w"] for panel in PANELS) == 24


def test_every_panel_asks_the_chosen_data_source() -> None:
    for panel in PANELS:
        if panel["type"] != "row":
            for asked in (panel, *panel["targets"]):
                assert asked["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_queries_use_only_variables_that_exist() -> None:
    text = json.dumps(DASHBOARD)
    used = set(re.findall(r"\$\{?(\w+)", text)) - {"__rate_interval", "__interval", "__all"}
    assert used <= VARIABLES
    assert {"job", "unit", "class"} <= used
