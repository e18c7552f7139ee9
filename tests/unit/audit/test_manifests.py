"""Manifests that carry Envoy's messages are read like a configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from extproc.cli import app
from extproc.config import load
from extproc.mesh.audit import audit, parse
from tests.unit.audit.good import (
    Config,
    good,
    host,
    ids,
    manager,
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


@pytest.mark.parametrize("version", ["1.36", "1.40"])
@pytest.mark.parametrize("mode", ["two-tier", "observe", "shadow"])
@pytest.mark.parametrize("target", ["standalone", "istio", "envoy-gateway"])
def test_what_is_rendered_has_no_fault(
    target: str, mode: str, version: str, tmp_path: Path
) -> None:
    config = yaml.safe_load((SHIPPED / target / "extproc.yaml").read_text())
    if mode == "shadow":
        candidate = {**config["units"][-1], "id": "unit-c", "release": "next", "verified": False}
        candidate.update(clusters=["unit_c"], engine_version="0.12")
        config["units"].append(candidate)
        config.setdefault("mesh", {})["shadow"] = {"unit": "unit-c"}
    path = tmp_path / "extproc.yaml"
    path.write_text(yaml.safe_dump(config))
    command = ["render", "--target", target, "--mode", mode, "--envoy-version", version]
    out = tmp_path / "out"
    done = CliRunner().invoke(app, [*command, "--config", str(path), "--output", str(out)])
    if done.exit_code == 2:
        pytest.skip(done.stderr.strip())
    documents = [entry for file in sorted(out.iterdir()) for entry in parse(file.read_text(), "")]
    report = audit(documents, target, settings=load(path))
    # Envoy 1.36 can forward no cluster metadata, and Istio's hosts have none of ours.
    known = {"forwarding-namespaces"} if (target, version) == ("istio", "1.36") else set()
    assert ids(report) <= known, [finding.where for finding in report.findings]
    answers = [str(question.answer) for question in report.questions[1:]]
    watching = mode == "observe"
    assert answers[1] == ("no" if watching else "yes")
    assert answers[0] == ("cannot-tell" if watching and target == "envoy-gateway" else "yes")


def test_a_patch_that_puts_the_filter_behind_the_router_is_found_out() -> None:
    def patched(operation: str) -> set[str]:
        chain = {"filterChain": {"filter": {"subFilter": {"name": "envoy.filters.http.router"}}}}
        patch = {
            "applyTo": "HTTP_FILTER",
            "match": {"context": "GATEWAY", "listener": chain},
            "patch": {
                "operation": operation,
                "value": manager(good(), "unit_a")["http_filters"][0],
            },
        }
        manifest = {
            "apiVersion": "networking.istio.io/v1alpha3",
            "kind": "EnvoyFilter",
            "spec": {"configPatches": [patch]},
        }
        return ids(audit([manifest], "m"))

    assert "filter-after-router" in patched("INSERT_AFTER")
    assert "filter-after-router" not in patched("INSERT_BEFORE")
