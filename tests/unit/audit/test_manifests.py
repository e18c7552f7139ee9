"""Manifests that carry Envoy's messages are read like a configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from extproc.config import load
from extproc.mesh.audit import audit, parse
from tests.unit.audit.good import (
    Config,
    good,
    host,
    ids,
)
from tests.unit.audit.spoilt import SPOILT


def envoy_filter(config: Config) -> Config:
    """The second tier, the front cluster and the route as an EnvoyFilter."""
    resources = config["static_resources"]
    patches: list[Config] = [
        {"applyTo": "LISTENER", "patch": {"operation": "ADD", "value": entry}}
        for entry in resources["listeners"][1:]
    ]
    patches += [
        {"applyTo": "CLUSTER", "patch": {"operation": "ADD", "value": entry}}
        for entry in resources["clusters"]
        if entry["name"] not in ("unit_a", "unit_b")
    ]
    front = host(config)
    patches += [
        {
            "applyTo": "VIRTUAL_HOST",
            "patch": {
                "operation": "MERGE",
                "value": {key: entry for key, entry in front.items() if key != "routes"},
            },
        },
        {"applyTo": "HTTP_ROUTE", "patch": {"operation": "MERGE", "value": front["routes"][0]}},
    ]
    return {
        "apiVersion": "networking.istio.io/v1alpha3",
        "kind": "EnvoyFilter",
        "metadata": {"name": "semantic"},
        "spec": {"configPatches": patches},
    }


def patch_policy(config: Config) -> Config:
    """The same as an EnvoyPatchPolicy."""
    kind = "type.googleapis.com/envoy.config."

    def whole(name: str, entry: Config) -> Config:
        operation = {"op": "add", "path": "", "value": entry}
        return {"type": kind + name, "name": entry["name"], "operation": operation}

    resources = config["static_resources"]
    patches = [whole("listener.v3.Listener", entry) for entry in resources["listeners"][1:]]
    patches += [
        whole("cluster.v3.Cluster", entry)
        for entry in resources["clusters"]
        if entry["name"] not in ("unit_a", "unit_b")
    ]
    front = host(config)
    selected = {"..virtual_hosts[*]": front, "..routes[*]": front["routes"][0]}
    for path, source in selected.items():
        for key, entry in source.items():
            if key in ("routes", "match", "name", "domains"):
                continue
            inner = entry.items() if key == "route" else [("", entry)]
            for name, value in inner:
                where = f"/{key}/{name}" if name else f"/{key}"
                operation = {"op": "add", "jsonPath": path, "path": where, "value": value}
                patches.append(
                    {
                        "type": kind + "route.v3.RouteConfiguration",
                        "name": "llm/eg/http",
                        "operation": operation,
                    }
                )
    return {
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "EnvoyPatchPolicy",
        "metadata": {"name": "semantic"},
        "spec": {"type": "JSONPatch", "jsonPatches": patches},
    }


IN_A_PATCH = [
    *("update-merge-window", "max-retries", "retry-priority-missing", "retriable-headers"),
    *("hold-impossible", "failure-mode-closed", "no-traffic-interval", "unhealthy-threshold"),
    *("request-buffer-limit", "num-retries", "error-matcher-hides-5xx", "panic-threshold"),
    *("sidecar-circuit-breaker", "receiving-namespaces", "unit-health-hostname"),
]


@pytest.mark.parametrize("wrap", [envoy_filter, patch_policy])
def test_manifests_are_read(wrap: Callable[[Config], Config]) -> None:
    report = audit([wrap(good())], "test")
    assert ids(report) == set()
    assert [question.answer for question in report.questions][1:] == ["yes", "yes"]
    for id in IN_A_PATCH:
        config = good()
        SPOILT[id](config)
        assert ids(audit([wrap(config)], "test")) == {id}


def extension_policy(**changed: Any) -> Config:
    """An ext_proc of Envoy Gateway's."""
    entry = {
        "backendRefs": [{"name": "semantic-extproc", "port": 18080}],
        "failOpen": True,
        "messageTimeout": "1s",
        "processingMode": {
            "response": {
                "body": "Streamed",
                "attributes": ["request.path", "request.id", "request.size", "upstream.address"],
            }
        },
        **changed,
    }
    return {
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "EnvoyExtensionPolicy",
        "metadata": {"name": "semantic"},
        "spec": {"extProc": [entry]},
    }


@pytest.mark.parametrize(
    ("changed", "id", "at"),
    [
        ({"failOpen": False}, "failure-mode-closed", "spec.extProc[0].failOpen"),
        ({"messageTimeout": None}, "message-timeout-short", "spec.extProc[0].messageTimeout"),
        ({"processingMode": {"response": {}}}, "body-not-sent", "spec.extProc[0].processingMode"),
        (
            {"processingMode": {"response": {"body": "FullDuplexStreamed"}}},
            "full-duplex-fail-open",
            "processingMode",
        ),
    ],
)
def test_an_extension_policy_is_read(changed: Config, id: str, at: str) -> None:
    report = audit([extension_policy(**changed)], "test")
    assert id not in ids(audit([extension_policy()], "test"))
    assert any(entry.id == id and at in entry.where for entry in report.findings)


def test_a_bootstrap_in_a_config_map_is_read() -> None:
    config = good()
    SPOILT["update-merge-window"](config)
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "data": {"envoy.yaml": yaml.safe_dump(config), "extproc.yaml": "units: []"},
    }
    report = audit(parse(yaml.safe_dump(manifest), "m"), "m")
    assert ids(report) == {"update-merge-window"}
    assert 'data["envoy.yaml"].static_resources' in report.findings[0].where


SHIPPED = Path(__file__).parents[3] / "envoy"


@pytest.mark.parametrize(
    "name",
    ["standalone/envoy.yaml", "istio/envoyfilter.yaml", "envoy-gateway/envoypatchpolicy.yaml"],
)
def test_what_is_shipped_has_no_fault(name: str) -> None:
    path = SHIPPED / name
    report = audit(
        parse(path.read_text(), name), name, settings=load(path.with_name("extproc.yaml"))
    )
    assert ids(report) == set()
    assert [question.answer for question in report.questions][1:] == ["yes", "yes"]
