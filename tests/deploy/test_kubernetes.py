"""The kustomize bases come to objects that Kubernetes takes and that fit together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from extproc.config.load import parse
from tests.deploy.tools import BASES, Object, build, check, one, overlay, pods

GATEWAY = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "gateway", "labels": {"semantic-extproc/inject": "true"}},
    "spec": {
        "selector": {"matchLabels": {"app": "gateway"}},
        "template": {
            "metadata": {"labels": {"app": "gateway"}},
            "spec": {"containers": [{"name": "envoy", "image": "envoyproxy/envoy:v1.40.0"}]},
        },
    },
}

OTHER = {
    **GATEWAY,
    "metadata": {"name": "other", "labels": {"app": "other"}},
}


def service(folder: Path) -> list[Object]:
    return build(overlay(folder, resources=["service"], components=["monitoring"]))


def fleet(folder: Path) -> list[Object]:
    return build(overlay(folder, resources=["service"], components=["fleet", "monitoring"]))


def sidecar(folder: Path) -> list[Object]:
    (folder / "gateway.yaml").write_text(yaml.safe_dump_all([GATEWAY, OTHER]))
    parts = ["sidecar", "monitoring"]
    return build(overlay(folder, resources=["gateway.yaml"], components=parts))


WAYS = [service, fleet, sidecar]


def containers(objects: list[Object]) -> list[Object]:
    """Our containers, wherever they stand."""
    found = []
    for pod in pods(objects):
        spec = pod["spec"]
        both = [*spec.get("containers", []), *spec.get("initContainers", [])]
        found += [entry for entry in both if entry["name"] == "semantic-extproc"]
    assert found
    return found


@pytest.mark.parametrize("way", WAYS)
def test_kubernetes_takes_every_object(way: Any, tmp_path: Path) -> None:
    for entry in way(tmp_path):
        check(entry)


@pytest.mark.parametrize("way", WAYS)
def test_containers_are_confined(way: Any, tmp_path: Path) -> None:
    objects = way(tmp_path)
    for entry in containers(objects):
        context = entry["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert entry["resources"]["requests"].keys() == {"cpu", "memory"}
        assert "memory" in entry["resources"]["limits"]
        writable = {
            mount["mountPath"] for mount in entry["volumeMounts"] if not mount.get("readOnly")
        }
        assert writable == {"/var/lib/semantic-extproc"}
    for pod in pods(objects):
        both = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]
        for entry in both:
            if entry["name"] == "semantic-extproc":
                merged = {**pod["spec"].get("securityContext", {}), **entry["securityContext"]}
                assert merged["runAsNonRoot"] is True
                assert merged["runAsUser"] == 10001
                assert merged["seccompProfile"] == {"type": "RuntimeDefault"}


@pytest.mark.parametrize("way", WAYS)
def test_the_configuration_that_is_mounted_is_good(way: Any, tmp_path: Path) -> None:
    objects = way(tmp_path)
    config = one(objects, "ConfigMap")
    settings = parse(config["data"]["extproc.yaml"], "extproc.yaml")
    ports = {port["containerPort"] for entry in containers(objects) for port in entry["ports"]}
    assert int(settings.admin.address.rpartition(":")[2]) in ports
    assert len(settings.units) == 2
    mounted = {
        volume["configMap"]["name"]
        for pod in pods(objects)
        for volume in pod["spec"].get("volumes", [])
        if "configMap" in volume
    }
    assert mounted == {config["metadata"]["name"]}  # the generated name, its hash included


@pytest.mark.parametrize("way", [service, fleet])
def test_ports_and_selectors_fit(way: Any, tmp_path: Path) -> None:
    objects = way(tmp_path)
    template = one(objects, "Deployment")["spec"]["template"]
    labels, spec = template["metadata"]["labels"], template["spec"]
    names = {port["name"] for port in spec["containers"][0]["ports"]}
    for entry in objects:
        if entry["kind"] == "Service":
            assert entry["spec"]["selector"].items() <= labels.items()
            assert {port["targetPort"] for port in entry["spec"]["ports"]} <= names
    policy = one(objects, "NetworkPolicy")["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} <= names
    budget = one(objects, "PodDisruptionBudget")["spec"]
    assert budget["selector"]["matchLabels"].items() <= labels.items()
    monitor = one(objects, "PodMonitor")["spec"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    assert {end["port"] for end in monitor["podMetricsEndpoints"]} <= names


def test_a_pod_ends_no_sooner_than_it_has_drained(tmp_path: Path) -> None:
    objects = service(tmp_path)
    spec = one(objects, "Deployment")["spec"]["template"]["spec"]
    settings = parse(one(objects, "ConfigMap")["data"]["extproc.yaml"], "extproc.yaml")
    before = spec["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert spec["terminationGracePeriodSeconds"] >= before + settings.grpc.drain_seconds + 5


def test_variables_of_a_service_are_not_taken_for_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = one(service(tmp_path), "Deployment")["spec"]["template"]["spec"]
    assert spec["enableServiceLinks"] is False
    # A gateway's pod that has the sidecar gets them all the same when it is in that namespace.
    address = "tcp://10.0.0.1:18080"
    for name in ("PORT", "PORT_18080_TCP", "SERVICE_PORT", "SERVICE_PORT_GRPC", "SERVICE_HOST"):
        monkeypatch.setenv(f"SEMANTIC_EXTPROC_{name}", address)
    assert parse("{}", "x").admin.address == "127.0.0.1:18081"


def test_several_replicas_share_one_view(tmp_path: Path) -> None:
    deployment = one(fleet(tmp_path), "Deployment")
    assert deployment["spec"]["replicas"] > 1
    names = {
        entry["name"] for entry in deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    assert {"SEMANTIC_EXTPROC_FLEET__URL", "SEMANTIC_EXTPROC_FLEET__INSTANCE"} == names


def test_a_gateway_gets_the_sidecar_before_its_own_containers(tmp_path: Path) -> None:
    objects = sidecar(tmp_path)
    spec = one(objects, "Deployment", "gateway")["spec"]["template"]["spec"]
    assert [entry["name"] for entry in spec["containers"]] == ["envoy"]
    added = spec["initContainers"][0]
    assert added["restartPolicy"] == "Always"
    assert added["startupProbe"]
    assert "readinessProbe" not in added
    assert added["image"] == "semantic-extproc:0.1.0"
    untouched = one(objects, "Deployment", "other")["spec"]["template"]["spec"]
    assert "initContainers" not in untouched


def test_the_network_policy_of_a_sidecar_closes_its_admin_port_alone(tmp_path: Path) -> None:
    policy = yaml.safe_load((BASES / "sidecar" / "networkpolicy.yaml").read_text())
    check(policy)
    open_to_all = {
        port
        for rule in policy["spec"]["ingress"]
        if "from" not in rule
        for entry in rule["ports"]
        if entry["protocol"] == "TCP"
        for port in range(entry["port"], entry["endPort"] + 1)
    }
    assert set(range(1, 65536)) - open_to_all == {18081}


@pytest.mark.parametrize("base", ["service", "sidecar"])
def test_an_overlay_brings_its_own_configuration_and_image(base: str, tmp_path: Path) -> None:
    """The example of docs/kubernetes.md."""
    (tmp_path / "gateway.yaml").write_text(yaml.safe_dump(GATEWAY))
    (tmp_path / "extproc.yaml").write_text("units: [{id: my-unit}]\n")
    parts = {"resources": ["service"]}
    if base == "sidecar":
        parts = {"resources": ["gateway.yaml"], "components": ["sidecar"]}
    objects = build(
        overlay(
            tmp_path,
            **parts,
            namespace="gateways",
            configMapGenerator=[
                {"name": "semantic-extproc", "behavior": "replace", "files": ["extproc.yaml"]}
            ],
            images=[
                {"name": "semantic-extproc", "newName": "registry.example.com/semantic-extproc"}
            ],
        )
    )
    assert "my-unit" in one(objects, "ConfigMap")["data"]["extproc.yaml"]
    images = {entry["image"] for entry in containers(objects)}
    assert images == {"registry.example.com/semantic-extproc:0.1.0"}
    assert {entry["metadata"]["namespace"] for entry in objects} == {"gateways"}
