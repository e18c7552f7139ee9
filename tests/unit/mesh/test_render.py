"""What ``render`` writes: the checked-in files, nothing left open, every problem with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from extproc.config import parse
from extproc.mesh.render import Rendered, RenderError, Target, Version, render
from tests.e2e.gateway import Setup
from tests.mesh import envoy_gateway, schemas, setups

UNITS = """
units:
- {id: a, hosts: ["10.0.0.1:8000"], fallback: [b], clusters: [ca]}
- {id: b, hosts: ["10.0.0.2:8000"], clusters: [cb], verified: true}
"""


def rendered(text: str, target: Target = Target.STANDALONE, version: str = "1.40") -> Rendered:
    return render(parse(text, "x.yaml"), target, Version.parse(version))


def envoy(text: str, version: str = "1.40") -> dict[str, Any]:
    tree = yaml.safe_load(rendered(text, version=version).files["envoy.yaml"])
    return dict(tree["static_resources"])


def named(entries: list[Any], name: str) -> Any:
    (found,) = (entry for entry in entries if entry["name"] == name)
    return found


def problems(text: str, target: Target = Target.STANDALONE) -> list[str]:
    with pytest.raises(RenderError) as caught:
        rendered(text, target)
    return [setting for setting, _ in caught.value.problems]


def ext_proc(listener: dict[str, Any]) -> dict[str, Any]:
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    return dict(manager["http_filters"][0]["typed_config"])


@pytest.mark.parametrize("target", list(Target))
def test_the_checked_in_files_are_what_render_writes(target: Target) -> None:
    folder = setups.ENVOY / target
    files = render(setups.example(target), target).files
    there = {path.name: path.read_text() for path in folder.iterdir()}
    there.pop("extproc.yaml")
    assert there == files, "run `make render`"


@pytest.mark.parametrize("target", [Target.ISTIO, Target.ENVOY_GATEWAY])
@pytest.mark.parametrize("mode", ["two-tier", "observe", "shadow"])
def test_every_manifest_is_valid_by_its_crd(target: Target, mode: str) -> None:
    third = {"id": "unit-c", "hosts": ["10.0.0.9:8000"]}
    tree, _ = setups.changed(target, {})
    units = [*tree["units"], third]
    mesh = {**tree["mesh"], "mode": mode, "shadow": {"unit": "unit-c"}}
    _, settings = setups.changed(target, {"units": units, "mesh": mesh})
    assert list(setups.manifests(render(settings, target).files))


def test_the_schemas_notice_an_unknown_field() -> None:
    (manifest, *_) = setups.manifests(render(setups.example(Target.ISTIO), Target.ISTIO).files)
    manifest["spec"]["configPatches"][0]["match"]["listner"] = {}
    with pytest.raises(Exception, match="listner"):
        schemas.validate(manifest)


def test_the_same_settings_come_to_the_same_text() -> None:
    assert rendered(UNITS).files == rendered(UNITS).files


def test_no_comment_changes_what_yaml_says() -> None:
    text = rendered(UNITS).files["envoy.yaml"]
    bare = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))
    assert yaml.safe_load(bare) == yaml.safe_load(text)
    assert "# Never twice the same unit" in text


def test_units_stand_in_the_order_of_the_fallback() -> None:
    text = """
units:
- {id: c, hosts: ["10.0.0.3:8000"]}
- {id: a, hosts: ["10.0.0.1:8000"], fallback: [b, c]}
- {id: b, hosts: ["10.0.0.2:8000"]}
mesh: {routes: [{unit: a}]}
"""
    endpoints = named(envoy(text)["clusters"], "llm")["load_assignment"]["endpoints"]
    order = [
        (entry.get("priority", 0), entry["lb_endpoints"][0]["endpoint"]["address"])
        for entry in endpoints
    ]
    assert [(at, where["envoy_internal_address"]) for at, where in order] == [
        (at, {"server_listener_name": name}) for at, name in enumerate("abc")
    ]


def test_routes_share_units_and_longer_prefixes_come_first() -> None:
    text = (
        UNITS
        + """
mesh:
  routes:
  - {name: all, unit: a}
  - {name: embeddings, unit: b, prefix: /v1/embeddings}
"""
    )
    resources = envoy(text)
    assert [entry["name"] for entry in resources["listeners"]] == ["front", "a", "b"]
    manager = resources["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    (host,) = manager["route_config"]["virtual_hosts"]
    assert [route["route"]["cluster"] for route in host["routes"]] == ["embeddings", "all"]
    assert "retry_policy" not in host["routes"][0]["route"]


def test_observe_holds_nothing_and_retries_nothing() -> None:
    resources = envoy(UNITS + "mesh: {mode: observe}\n")
    found = ext_proc(named(resources["listeners"], "a"))
    assert found["observability_mode"]
    assert found["failure_mode_allow"]
    assert "send_body_without_waiting_for_header_response" not in found
    assert "retry_policy" not in str(resources)
    assert "outlier_detection" not in str(resources)
    assert named(resources["clusters"], "llm")["health_checks"]


def test_without_ejection_nothing_moves_traffic_but_the_retry() -> None:
    resources = envoy(UNITS + "mesh: {eject: false}\n")
    assert "health_check" not in str(resources)
    assert "outlier_detection" not in str(resources)
    assert "retry_policy" in str(resources)


def test_prompts_leave_envoy_only_if_they_may() -> None:
    modes = ext_proc(named(envoy(UNITS)["listeners"], "a"))["processing_mode"]
    assert modes["request_header_mode"] == "SKIP"
    assert "request_body_mode" not in modes
    shown = envoy(UNITS + "mesh: {requests: shown}\n")
    modes = ext_proc(named(shown["listeners"], "a"))["processing_mode"]
    assert (modes["request_header_mode"], modes["request_body_mode"]) == ("SEND", "STREAMED")


def test_every_worker_is_an_endpoint_of_one_cluster() -> None:
    addresses = ["unix:///run/a.sock", "unix:///run/b.sock"]
    resources = envoy(UNITS + f"mesh: {{sidecar: {{addresses: {addresses}}}}}\n")
    cluster = named(resources["clusters"], "semantic_extproc")
    (locality,) = cluster["load_assignment"]["endpoints"]
    paths = [entry["endpoint"]["address"]["pipe"]["path"] for entry in locality["lb_endpoints"]]
    assert paths == ["/run/a.sock", "/run/b.sock"]
    assert cluster["lb_policy"] == "LEAST_REQUEST"
    assert "grpc_health_check" in cluster["health_checks"][0]


def test_a_host_by_name_is_looked_up_and_not_asked_for_alone() -> None:
    text = UNITS.replace('"10.0.0.1:8000"', '"engine.internal:8000"')
    cluster = named(envoy(text)["clusters"], "ca")
    assert cluster["type"] == "STRICT_DNS"
    assert "health_checks" not in cluster


def test_what_a_version_lacks_is_left_out_and_said() -> None:
    old, new = rendered(UNITS, version="1.36"), rendered(UNITS)
    assert "cluster_metadata_forwarding_namespaces:" in new.files["envoy.yaml"]
    assert "cluster_metadata_forwarding_namespaces:" not in old.files["envoy.yaml"]
    assert any("1.36" in warning for warning in old.warnings)
    assert "# Left out for Envoy 1.36" in old.files["envoy.yaml"]
    hosts = named(envoy(UNITS, "1.36")["clusters"], "ca")["load_assignment"]["endpoints"]
    said = hosts[0]["lb_endpoints"][0]["metadata"]["filter_metadata"]["semantic.extproc"]
    assert said["unit"] == "a"


@pytest.mark.parametrize("text", ["1.35", "latest", "1", "1.2.3.4"])
def test_a_version_that_is_none_or_too_old_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"Envoy"):
        Version.parse(text)


def test_missing_settings_are_all_told_with_their_places() -> None:
    assert problems("units: []\n") == ["units"]
    assert problems("units: [{id: a}, {id: b, hosts: ['1.2.3.4:5']}]\n") == ["units[0]"]
    assert problems("units: [{id: a}]\n", Target.ISTIO) == ["mesh.routes[0].route", "units[0]"]
    assert problems("units: [{id: a}]\n", Target.ENVOY_GATEWAY) == [
        "mesh.routes[0].route",
        "units[0]",
    ]
    observing = "units: [{id: a}]\nmesh: {mode: observe, routes: [{route: n/r}]}\n"
    assert problems(observing, Target.ENVOY_GATEWAY) == ["trusted_headers.unit"]
    assert problems(UNITS + "mesh: {mode: shadow}\n") == ["mesh.shadow.unit"]
    assert problems(UNITS + "mesh: {mode: shadow, shadow: {unit: a}}\n") == ["mesh.shadow.unit"]
    assert problems(UNITS + "hold: {gap: 1.5}\n") == ["hold.gap"]
    assert problems(UNITS + "admin: {address: 'sidecar:18081'}\n") == ["mesh.sidecar.health"]
    mixed = "mesh: {sidecar: {addresses: ['unix:///a', '1.2.3.4:5']}}\n"
    assert problems(UNITS + mixed) == ["mesh.sidecar.addresses"]
    assert problems("units: [{id: a-b, hosts: ['1.2.3.4:5']}, {id: a_b}]\n") == ["units[1].id"]


def test_what_envoy_would_refuse_is_refused_here_with_its_place() -> None:
    routes = UNITS + "mesh: {routes: [{name: x, domains: [a, b]}, {name: y, domains: [b]}]}\n"
    assert problems(routes) == ["mesh.routes[1].domains"]
    assert problems(UNITS + "mesh: {routes: [{name: x}, {name: y}]}\n") == ["mesh.routes[1]"]
    assert problems(UNITS + "mesh: {routes: [{name: ca}]}\n") == ["units[0].clusters"]
    assert problems(UNITS + "grpc: {address: '127.0.0.1:0'}\n") == ["grpc.address"]
    assert problems(UNITS + "admin: {address: ':0'}\n") == ["admin.address"]


def test_a_meshs_own_cluster_is_used_also_where_hosts_are_known() -> None:
    text = UNITS.replace("clusters: [ca]", 'clusters: ["outbound|80|v1|a.b.c"]') + (
        "mesh: {routes: [{route: r}]}\n"
    )
    (manifest,) = setups.manifests(rendered(text, Target.ISTIO).files)
    operations = {
        patch["patch"]["value"].get("name", patch["match"].get("cluster", {}).get("name")): (
            patch["patch"]["operation"]
        )
        for patch in manifest["spec"]["configPatches"]
        if patch["applyTo"] == "CLUSTER"
    }
    assert operations["outbound|80|v1|a.b.c"] == operations["cb"] == "MERGE"
    assert operations["llm"] == "ADD"


def test_what_would_surprise_is_said() -> None:
    _, watching = setups.changed(
        Target.ENVOY_GATEWAY, {"mesh": {"mode": "observe", "routes": [{"route": "llm/chat"}]}}
    )
    warnings = render(watching, Target.ENVOY_GATEWAY).warnings
    assert any("no Service reaches it" in warning for warning in warnings)
    several = rendered(UNITS.replace("[ca]", "[ca, cz]"))
    assert "only 'ca' is used" in several.warnings[0]
    alone = rendered("units: [{id: a, hosts: ['1.2.3.4:5']}]\n")
    assert "no fallback" in alone.warnings[0]
    unused = rendered(UNITS + "- {id: z}\n")
    assert any("'z' is in no route" in warning for warning in unused.warnings)
    assert not rendered(UNITS).warnings


def test_subsets_become_a_destination_rule_only_if_units_name_their_labels(
    tmp_path: Path,
) -> None:
    tree, settings = setups.changed(Target.ISTIO, {})
    assert "destinationrule.yaml" in render(settings, Target.ISTIO).files
    for unit in tree["units"]:
        del unit["labels"]
    _, bare = setups.changed(Target.ISTIO, {"units": tree["units"]})
    assert set(render(bare, Target.ISTIO).files) == {"envoyfilter.yaml"}


def test_a_routes_own_timeout_stays_if_it_shall(tmp_path: Path) -> None:
    assert _route_of(setups.istio(tmp_path, {}), "chat")["timeout"] == "0s"
    route = {"virtual_host": "llm.example.com:80", "route": "chat", "timeout": None}
    kept = setups.istio(tmp_path, {"mesh": {"routes": [route]}})
    assert _route_of(kept, "chat")["timeout"] == "15s"


def test_what_a_route_has_in_lists_stays(tmp_path: Path) -> None:
    base = setups.base_of_gateway()
    (route,) = base["routes"][0]["virtual_hosts"][2]["routes"]
    route["response_headers_to_remove"] = ["x-own"]
    (manifest, _) = setups.manifests(
        render(setups.example(Target.ENVOY_GATEWAY), Target.ENVOY_GATEWAY).files
    )
    patched = envoy_gateway.patched(base, manifest)
    (route,) = patched["routes"][0]["virtual_hosts"][2]["routes"]
    assert route["response_headers_to_remove"] == ["x-own", "x-semantic-verdict"]
    assert len(route["request_headers_to_remove"]) == 4


def _route_of(setup: Setup, name: str) -> dict[str, Any]:
    listener = setup.envoy["static_resources"]["listeners"][0]
    chain = listener.get("default_filter_chain") or listener["filter_chains"][0]
    hosts = chain["filters"][0]["typed_config"]["route_config"]["virtual_hosts"]
    (found,) = (route for host in hosts for route in host["routes"] if route["name"] == name)
    return dict(found["route"])


def test_other_routes_of_a_gateway_are_left_alone(tmp_path: Path) -> None:
    rest = _route_of(setups.istio(tmp_path, {}), "rest")
    assert rest["cluster"] == "outbound|8000||llm.llm.svc.cluster.local"
    assert "retriable_headers" not in rest["retry_policy"]
    unit = "httproute/llm/unit-a/rule/0"
    own = _route_of(setups.gateway(tmp_path, {}), f"{unit}/match/0/unit-a_invalid")
    assert own == {
        "cluster": unit,
        "upgrade_configs": [{"upgrade_type": "websocket"}],
    }


def test_clients_without_a_gateway_are_configured_in_their_own_proxies() -> None:
    mesh = {"routes": [{"route": "chat"}], "istio": {"context": "sidecar", "selector": {"a": "b"}}}
    _, settings = setups.changed(Target.ISTIO, {"mesh": mesh})
    (manifest, *_) = setups.manifests(render(settings, Target.ISTIO).files)
    patches = manifest["spec"]["configPatches"]
    assert {patch["match"]["context"] for patch in patches} == {"SIDECAR_OUTBOUND"}
    assert manifest["spec"]["workloadSelector"] == {"labels": {"a": "b"}}
