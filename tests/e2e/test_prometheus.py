"""A real Prometheus beside real Envoy: what the shipped rules and dashboard ask is answered."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.gateway import Gateway, eventually
from tests.e2e.prometheus import Prometheus
from tests.e2e.upstream import (
    BANG_JSON,
    BANG_STREAM,
    HEALTHY_JSON,
    HEALTHY_STREAM,
    OTHER_JSON,
    OTHER_STREAM,
    Reply,
    Request,
    Upstream,
    answers,
)
from tests.observability.catalogue import known_series
from tests.observability.test_rules import RULES

DASHBOARD = json.loads(
    (Path(__file__).resolve().parents[2] / "envoy/grafana/semantic-extproc.json").read_text()
)
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACED = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}

VARIABLES = {
    "job": ".*",
    "unit": ".*",
    "class": ".*",
    "front": "llm",
    "__rate_interval": "1m",
    "__interval": "10s",
}

QUIET = ("internal_errors", "webhooks", "fleet_syncs", "xds_refusals", "probe_")
"""Metrics of faults and of probes, which this traffic does not have."""


LATEST = 'unit_release:semantic_extproc_corrupt:ratio_rate1h{unit="unit-a"}'
"""What is known last."""


def expected(query: str) -> bool:
    """Whether there must be data."""
    return not any(word in query for word in QUIET)


def filled(expression: str) -> str:
    """A query of the dashboard as Grafana would send it."""
    return re.sub(r"\$(\w+)", lambda found: VARIABLES[found[1]], expression)


def queries() -> Iterator[tuple[str, str]]:
    """(title of the panel, query) of everything that the dashboard asks."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], filled(target["expr"])
    for annotation in DASHBOARD["annotations"]["list"]:
        if "expr" in annotation:
            yield annotation["name"], filled(annotation["expr"])


@dataclass
class Observed:
    """What Prometheus answered."""

    targets: list[dict[str, Any]] = field(default_factory=list)
    rules: list[dict[str, Any]] = field(default_factory=list)
    exemplars: list[dict[str, Any]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    records: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    panels: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    variables: dict[str, set[str]] = field(default_factory=dict)


async def _no_answer(request: Request, reply: Reply) -> None:
    await reply.head(204, "text/plain")
    await reply.end()


def _patient(config: dict[str, Any]) -> None:
    """The front must not eject the unit before the book has enough evidence."""
    clusters = config["static_resources"]["clusters"]
    front = next(cluster for cluster in clusters if cluster["name"] == "llm")
    front["outlier_detection"]["consecutive_5xx"] = 1000


async def _traffic(g: Gateway) -> None:
    """Healthy, then corrupt until the unit is out, then healthy from its fallback."""
    for number in range(24):
        await g.ask(stream=number % 2 == 0)
        await asyncio.sleep(0.1)
    healthy, g.b.script = g.b.script, _no_answer
    g.a.script = _no_answer
    await g.ask()
    g.a.script, g.b.script = answers(BANG_STREAM, BANG_JSON), healthy
    for _ in range(20):
        await g.ask(headers=TRACED)
        await asyncio.sleep(0.2)
        if (await g.unit("unit-a"))["state"] == "quarantine":
            break
    await g.become("unit-a", state="quarantine")
    for _ in range(8):
        await g.ask(stream=True)
        await asyncio.sleep(0.1)


async def _observe(folder: Path) -> Observed:
    a, b = answers(HEALTHY_STREAM, HEALTHY_JSON), answers(OTHER_STREAM, OTHER_JSON)
    seen = Observed()
    (folder / "prometheus").mkdir()
    async with Gateway(folder, Upstream(a), Upstream(b), change=_patient) as g:
        jobs = {
            "semantic-extproc": f"{g.admin}/metrics",
            "envoy": f"{g.envoy}/stats/prometheus",
        }
        async with Prometheus(folder / "prometheus", jobs) as prometheus:
            started = time.time()
            await _traffic(g)

            async def answered() -> bool:
                # A rate wants two scrapes, a record a round of rules more: whatever is missing at
                # last is what a test below will name.
                wanted = [query for _, query in queries() if expected(query)]
                wanted += [f"{LATEST} > 0", 'ALERTS{alertname="SemanticUnitQuarantined"}']
                for query in wanted:
                    if not await prometheus.query(query):
                        return False
                return True

            with suppress(AssertionError):
                await eventually(answered, 30)
            seen.targets = (await prometheus.get("targets"))["activeTargets"]
            groups = (await prometheus.get("rules"))["groups"]
            seen.rules = [rule for group in groups for rule in group["rules"]]
            seen.names = set(await prometheus.get("label/__name__/values"))
            seen.exemplars = await prometheus.get(
                "query_exemplars",
                query="semantic_extproc_responses_total",
                start=str(started - 1),
                end=str(time.time() + 1),
            )
            for rule in RULES:
                if "record" in rule:
                    seen.records[rule["record"]] = await prometheus.query(rule["record"])
            for _, query in queries():
                seen.panels[query] = await prometheus.query(query)
            for variable in DASHBOARD["templating"]["list"]:
                if variable["type"] == "query":
                    asked = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"])
                    assert asked is not None
                    series = await prometheus.get("series", **{"match[]": filled(asked[1])})
                    seen.variables[variable["name"]] = {each[asked[2]] for each in series}
    return seen


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Observed:
    return asyncio.run(_observe(tmp_path_factory.mktemp("prometheus")))


def test_both_targets_are_scraped(observed: Observed) -> None:
    health = {target["labels"]["job"]: target["health"] for target in observed.targets}
    assert health == {"semantic-extproc": "up", "envoy": "up"}


def test_every_rule_is_loaded_and_evaluates(observed: Observed) -> None:
    assert len(observed.rules) == len(RULES)
    assert not [rule for rule in observed.rules if rule["health"] != "ok"]


def test_every_recording_rule_gives_values(observed: Observed) -> None:
    assert not [name for name, found in observed.records.items() if not found]


def test_the_alert_of_a_quarantine_is_on_its_way(observed: Observed) -> None:
    states = {rule["name"]: rule["state"] for rule in observed.rules if "state" in rule}
    assert states["SemanticUnitQuarantined"] in ("pending", "firing")
    assert states["SemanticQuarantineWithoutFallback"] == "inactive"
    assert states["SemanticFallbackNotReady"] == "inactive", "unit-b is verified and well"


def test_a_corrupt_answer_s_trace_is_an_exemplar(observed: Observed) -> None:
    found = {
        (series["seriesLabels"]["verdict"], exemplar["labels"]["trace_id"])
        for series in observed.exemplars
        for exemplar in series["exemplars"]
    }
    assert found == {("corrupt", TRACE)}


@pytest.mark.parametrize(("title", "query"), list(queries()), ids=lambda text: text[:60])
def test_every_query_of_the_dashboard_is_answered(
    observed: Observed, title: str, query: str
) -> None:
    used = set(re.findall(r"\b(?:[a-z_]+:)?(?:semantic_extproc|envoy)_\w+(?::\w+)?", query))
    used -= {"envoy_cluster_name", "envoy_http_conn_manager_prefix"}
    assert used
    assert not used - observed.names - known_series()
    if expected(query):
        assert observed.panels[query], "no data"


@pytest.mark.parametrize("query", [query for _, query in queries()], ids=lambda text: text[:60])
def test_no_query_of_the_dashboard_gives_nonsense(observed: Observed, query: str) -> None:
    """A share of nothing is NaN; only percentiles of an idle histogram may be that."""
    values = {series["value"][1] for series in observed.panels[query]}
    assert not values & {"NaN", "+Inf", "-Inf"}


def test_the_dashboard_s_variables_have_choices(observed: Observed) -> None:
    assert observed.variables["job"] == {"semantic-extproc"}
    assert observed.variables["unit"] == {"unit-a", "unit-b"}
    assert observed.variables["class"] == {"short"}
    assert "llm" in observed.variables["front"]
