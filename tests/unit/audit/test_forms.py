"""The same configuration in every form that it comes in gives the same findings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from extproc.mesh.audit import Severity, audit
from extproc.mesh.audit.node import camel
from tests.unit.audit.good import (
    Config,
    good,
    ids,
    manager,
)
from tests.unit.audit.spoilt import CASES, SPOILT

CONFIGURED = [case for case in CASES if case.stats is None]

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
