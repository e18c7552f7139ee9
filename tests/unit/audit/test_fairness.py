"""What is as it should be is not found."""

from __future__ import annotations

import json
from typing import Any

from extproc.mesh.audit import Severity, audit
from tests.unit.audit.good import (
    PREFIX,
    cluster,
    good,
    host,
    ids,
    listener,
    manager,
    processor,
)
from tests.unit.audit.layouts import level
from tests.unit.audit.spoilt import SPOILT


def found(document: Any) -> set[str]:
    """Everything that is found, of whatever severity."""
    return ids(audit([document], "test"), *Severity)


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
