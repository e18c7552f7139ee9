"""A DestinationRule beside the patches: do its subsets make the clusters that units are?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from extproc.config import load
from extproc.mesh.audit import Report, audit
from tests.unit.audit.good import ids

ISTIO = Path(__file__).parents[3] / "envoy" / "istio"

Rule = dict[str, Any]


def pool(**content: Any) -> Callable[[Rule], Any]:
    return lambda rule: rule["trafficPolicy"].update(connectionPool=content)


def report(change: Callable[[Rule], Any]) -> Report:
    """On the shipped manifests, the ``spec`` of the DestinationRule changed."""
    rule = yaml.safe_load((ISTIO / "destinationrule.yaml").read_text())
    change(rule["spec"])
    patches = yaml.safe_load((ISTIO / "envoyfilter.yaml").read_text())
    return audit([rule, patches], "istio", settings=load(ISTIO / "extproc.yaml"))


CASES: list[tuple[str, Callable[[Rule], Any], str]] = [
    ("subset-missing", lambda rule: rule["subsets"].pop(), "document[0].spec.subsets"),
    (
        "subset-missing",
        lambda rule: rule["subsets"][0].update(name="unit_a"),
        "document[0].spec.subsets",
    ),
    (
        "subsets-overlap",
        lambda rule: rule["subsets"][1].update(labels={"unit": "a"}),
        "document[0].spec.subsets[1].labels",
    ),
    (
        "subsets-overlap",
        lambda rule: rule["subsets"][1].pop("labels"),
        "document[0].spec.subsets[1].labels",
    ),
    (
        "subset-connection-pool",
        pool(http={"http2MaxRequests": 50}),
        "document[0].spec.trafficPolicy.connectionPool.http.http2MaxRequests",
    ),
    (
        "subset-connection-pool",
        lambda rule: rule["subsets"][1].update(
            trafficPolicy={"connectionPool": {"tcp": {"maxConnections": 100}}}
        ),
        "document[0].spec.subsets[1].trafficPolicy.connectionPool.tcp.maxConnections",
    ),
]


@pytest.mark.parametrize(("id", "change", "at"), CASES)
def test_a_spoilt_rule_is_found_out(id: str, change: Callable[[Rule], Any], at: str) -> None:
    found = report(change)
    assert ids(found) == {id}
    places = [finding.where for finding in found.findings if finding.id == id]
    assert all(place.startswith(f"{at} (cluster outbound|8000|") for place in places), places


@pytest.mark.parametrize(
    "change",
    [
        lambda rule: None,
        lambda rule: rule.update(host="llm"),
        lambda rule: rule.update(host="other.llm.svc.cluster.local", subsets=[]),
        pool(http={"http2MaxRequests": 100000}),
        lambda rule: rule["subsets"].append({"name": "canary", "labels": {"unit": "c"}}),
    ],
)
def test_a_rule_that_fits_or_is_anothers_is_left_alone(change: Callable[[Rule], Any]) -> None:
    assert ids(report(change)) == set()


def test_a_sidecar_cluster_that_no_patch_adds_is_missed() -> None:
    patches = yaml.safe_load((ISTIO / "envoyfilter.yaml").read_text())
    spec = patches["spec"]
    spec["configPatches"] = [
        patch
        for patch in spec["configPatches"]
        if patch["patch"].get("value", {}).get("name") != "semantic_extproc"
    ]
    assert ids(audit([patches], "istio")) == {"sidecar-cluster-missing"}
