"""The same configuration in every form that it comes in gives the same findings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from extproc.mesh.audit import Severity, audit, parse
from extproc.mesh.audit.node import camel
from tests.unit.audit.good import (
    PREFIX,
    Config,
    cluster,
    good,
    host,
    ids,
    listener,
    manager,
    processor,
)
from tests.unit.audit.layouts import level
from tests.unit.audit.spoilt import CASES

CONFIGURED = [case for case in CASES if case.stats is None]
SPOILT = {case.id: case.change for case in reversed(CASES)}

MAPS = {
    *("filter_metadata", "typed_per_filter_config", "typed_extension_protocol_options"),
    *("json_format", "untyped"),
}


def camels(value: Any, within_map: bool = False) -> Any:
    """The configuration as protobuf's JSON mapping spells it."""
    if isinstance(value, list):
        return [camels(entry) for entry in value]
    if not isinstance(value, dict) or "static_layer" in value:
        return value
    return {
        key if within_map or "." in key or "@" in key else camel(key): camels(entry, key in MAPS)
        for key, entry in value.items()
    }


def durations(value: Any) -> Any:
    """All durations in protobuf's canonical form."""
    if isinstance(value, dict):
        return {key: durations(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [durations(entry) for entry in value]
    if isinstance(value, str) and re.fullmatch(r"[0-9.]+s", value):
        return f"{float(value[:-1]):.3f}s"
    return value


def strings(value: Any) -> Any:
    """All whole numbers as strings, as JSON has 64-bit ones."""
    if isinstance(value, dict):
        return {key: strings(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [strings(entry) for entry in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value


def dump(config: Config) -> Config:
    """As an admin interface's /config_dump wraps it."""
    kind = "type.googleapis.com/envoy.admin.v3."
    static = config["static_resources"]

    def typed(name: str, entry: Config) -> Config:
        return {"@type": f"type.googleapis.com/envoy.config.{name}", **entry}

    return {
        "configs": [
            {"@type": kind + "BootstrapConfigDump", "bootstrap": config},
            {
                "@type": kind + "ClustersConfigDump",
                "dynamic_active_clusters": [
                    {
                        "version_info": "1",
                        "cluster": typed("cluster.v3.Cluster", entry),
                        "last_updated": "2026-11-29T00:00:00Z",
                    }
                    for entry in static.get("clusters", [])
                ],
            },
            {
                "@type": kind + "ListenersConfigDump",
                "dynamic_listeners": [
                    {
                        "name": entry["name"],
                        "active_state": {"listener": typed("listener.v3.Listener", entry)},
                    }
                    for entry in static["listeners"]
                ],
            },
            {"@type": kind + "EndpointsConfigDump"},
        ]
    }


def typed_structs(config: Config) -> Config:
    """The filters in TypedStruct, as Istio writes them."""
    for name in ("unit_a", "unit_b"):
        entry = manager(config, name)["http_filters"][0]
        inner = entry["typed_config"]
        if not inner["@type"].endswith("ExternalProcessor"):
            continue
        entry["typed_config"] = {
            "@type": "type.googleapis.com/xds.type.v3.TypedStruct",
            "type_url": inner.pop("@type"),
            "value": inner,
        }
    return config


FORMS: dict[str, Callable[[Config], Any]] = {
    "camel": camels,
    "durations": durations,
    "strings": strings,
    "dump": dump,
    "camel dump": lambda config: camels(dump(config)),
}


def found(document: Any) -> set[str]:
    """Everything that is found, notes of severity included."""
    return ids(audit([document], "test"), *Severity)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_configuration_is_read_alike(form: str) -> None:
    for case in CONFIGURED:
        config = good()
        case.change(config)
        wanted = found(json.loads(json.dumps(config)))
        assert found(FORMS[form](config)) == wanted, (case.id, case.label)


@pytest.mark.parametrize("id", ["failure-mode-closed", "hold-impossible", "mutation-rules"])
def test_a_filter_in_a_typed_struct_is_read(id: str) -> None:
    config = good()
    assert found(typed_structs(config)) == found(good())
    config = good()
    SPOILT[id](config)
    assert id in found(typed_structs(config))


def test_a_filter_that_comes_by_discovery_is_read() -> None:
    config = good()
    entries = [manager(config, name)["http_filters"][0] for name in ("unit_a", "unit_b")]
    SPOILT["hold-impossible"](config)
    sent = {
        "@type": "type.googleapis.com/envoy.admin.v3.EcdsConfigDump",
        "ecds_filters": [
            {
                "ecds_filter": {
                    "@type": "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig",
                    "name": "envoy.filters.http.ext_proc",
                    "typed_config": entries[0].pop("typed_config"),
                }
            }
        ],
    }
    for entry in entries:
        entry.pop("typed_config", None)
        entry["config_discovery"] = {"config_source": {"ads": {}}}
    document = dump(config)
    document["configs"].append(sent)
    assert "hold-impossible" in found(document)


def test_scoped_routes_are_read() -> None:
    config = good()
    SPOILT["retry-priority-missing"](config)
    table = manager(config).pop("route_config")
    manager(config)["scoped_routes"] = {
        "name": "scopes",
        "scoped_rds": {"scoped_rds_config_source": {"ads": {}}},
    }
    document = dump(config)
    kind = "type.googleapis.com/envoy.admin.v3."
    scope = {"name": "one", "route_configuration_name": "front"}
    document["configs"] += [
        {
            "@type": kind + "ScopedRoutesConfigDump",
            "dynamic_scoped_route_configs": [{"name": "scopes", "scoped_route_configs": [scope]}],
        },
        {
            "@type": kind + "RoutesConfigDump",
            "dynamic_route_configs": [{"version_info": "1", "route_config": table}],
        },
    ]
    report = audit([document], "test")
    assert ids(report) == {"retry-priority-missing"}
    assert any("dynamic_route_configs" in finding.where for finding in report.findings)


def test_routes_that_were_not_sent_cannot_be_told() -> None:
    config = good()
    del manager(config)["route_config"]
    manager(config)["rds"] = {"route_config_name": "front", "config_source": {"ads": {}}}
    report = audit([config], "test")
    assert {question.answer for question in report.questions} == {"cannot-tell"}


# ---- Manifests


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


# ---- What must not be found


def test_another_ext_proc_is_left_alone() -> None:
    config = good()
    other = {
        "name": "envoy.filters.http.ext_proc/picker",
        "typed_config": {
            "@type": PREFIX + "extensions.filters.http.ext_proc.v3.ExternalProcessor",
            "grpc_service": {"envoy_grpc": {"cluster_name": "endpoint_picker"}},
            "processing_mode": {"request_body_mode": "FULL_DUPLEX_STREAMED"},
        },
    }
    manager(config)["http_filters"].insert(0, other)
    assert found(config) == found(good())


def test_routes_that_reach_no_unit_are_left_alone() -> None:
    config = good()
    config["static_resources"]["clusters"].append({"name": "web", "type": "STATIC"})
    host(config)["routes"].insert(0, {"match": {"prefix": "/web"}, "route": {"cluster": "web"}})
    assert found(config) == found(good())


def test_a_filter_that_only_watches_wants_no_retry() -> None:
    config = good()
    level()(config)
    guard = manager(config)["http_filters"][0]["typed_config"]
    guard["observability_mode"] = True
    del manager(config)["route_config"]["virtual_hosts"][0]["routes"][0]["route"]["retry_policy"]
    report = audit([config], "test")
    assert ids(report) == set()
    assert [question.answer for question in report.questions][1:] == ["yes", "no"]
    del cluster(config)["health_checks"]
    assert ids(audit([config], "test")) == {"unit-health-missing"}


def test_an_upstream_chain_that_only_watches_does_not_crash() -> None:
    config = good()
    SPOILT["upstream-chain-crash"](config)
    watching = '"observability_mode": true, "failure_mode_allow"'
    text = json.dumps(config).replace('"failure_mode_allow"', watching)
    assert ids(audit([json.loads(text)], "test")) == {"marker-forgeable"}


def test_settings_that_say_the_same_otherwise_are_as_good() -> None:
    config = good()
    del host(config)["request_body_buffer_limit"]
    listener(config)["per_connection_buffer_limit_bytes"] = 16 << 20
    processor(config)["mutation_rules"] = {}
    cluster(config)["circuit_breakers"]["thresholds"][0] = {
        **cluster(config)["circuit_breakers"]["thresholds"][0],
        "priority": "DEFAULT",
        "retry_budget": {"budget_percent": {"value": 100}},
    }
    del cluster(config)["common_lb_config"]["healthy_panic_threshold"]
    config["layered_runtime"]["layers"].insert(
        0, {"name": "s", "static_layer": {"upstream": {"healthy_panic_threshold": 0}}}
    )
    rules = manager(config)["http_filters"]
    rules.insert(
        0,
        {
            "name": "envoy.filters.http.header_mutation",
            "typed_config": {
                "@type": PREFIX + "extensions.filters.http.header_mutation.v3.HeaderMutation",
                "mutations": {"response_mutations": [{"remove": "x-semantic-verdict"}]},
            },
        },
    )
    del host(config)["response_headers_to_remove"]
    assert ids(audit([config], "test")) == set()


def test_a_health_check_about_a_unit_that_no_cluster_is_is_found() -> None:
    config = good()
    hosts = cluster(config)["load_assignment"]["endpoints"][0]["lb_endpoints"]
    hosts[0]["endpoint"]["health_check_config"]["hostname"] = "unit-x"
    assert ids(audit([config], "test")) == {"unit-health-other-unit"}


def test_a_large_mesh_is_read_in_a_moment() -> None:
    config = good()
    SPOILT["update-merge-window"](config)
    for number in range(2000):
        name = f"web-{number}"
        config["static_resources"]["clusters"].append({"name": name, "type": "STATIC"})
        bare = {"match": {"prefix": f"/{name}"}, "route": {"cluster": name}}
        host(config)["routes"].insert(0, bare)
    assert ids(audit([config], "test")) == {"update-merge-window"}
