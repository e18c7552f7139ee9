"""The demo runs the shipped configuration, and both programs accept it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from extproc.config import load
from extproc.demo import envoy
from extproc.demo.topology import UNIT_A, UNIT_B, Topology


@pytest.fixture
def topology(tmp_path: Path) -> Topology:
    made = Topology.on_free_ports(tmp_path)
    made.write()
    return made


def validate(path: Path) -> subprocess.CompletedProcess[str]:
    command = [str(envoy.find_binary()), "--mode", "validate", "-c", str(path)]
    command += ["--use-dynamic-base-id", "--service-node", "test", "--service-cluster", "test"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def ports_of(config: Any) -> Iterator[int]:
    if isinstance(config, dict):
        for key, value in config.items():
            yield from [value] if key == "port_value" else ports_of(value)
    elif isinstance(config, list):
        for entry in config:
            yield from ports_of(entry)


def test_envoy_accepts_the_shipped_configuration() -> None:
    done = validate(envoy.standalone() / "envoy.yaml")
    assert done.returncode == 0, done.stderr


def test_envoy_accepts_the_configuration_of_the_demo(topology: Topology) -> None:
    done = validate(topology.envoy_file)
    assert done.returncode == 0, done.stderr


def test_validation_would_notice_an_unknown_field(tmp_path: Path) -> None:
    config = yaml.safe_load((envoy.standalone() / "envoy.yaml").read_text())
    config["static_resources"]["clusters"][0]["no_such_field"] = 1
    (tmp_path / "bad.yaml").write_text(yaml.safe_dump(config))
    assert validate(tmp_path / "bad.yaml").returncode != 0


def test_the_sidecar_accepts_both_of_its_configurations(topology: Topology) -> None:
    for path in (envoy.standalone() / "extproc.yaml", topology.sidecar_file):
        assert [unit.id for unit in load(path).units] == [UNIT_A, UNIT_B]


def test_the_shipped_files_agree_with_each_other() -> None:
    settings = load(envoy.standalone() / "extproc.yaml")
    config = yaml.safe_load((envoy.standalone() / "envoy.yaml").read_text())
    clusters = {entry["name"]: entry for entry in config["static_resources"]["clusters"]}
    assert int(settings.grpc.address.rpartition(":")[2]) in ports_of(clusters["semantic_extproc"])
    assert int(settings.admin.address.rpartition(":")[2]) in ports_of(clusters["llm"])
    for unit in settings.units:
        for name in unit.clusters:
            metadata = clusters[name]["metadata"]["filter_metadata"]["semantic.extproc"]
            assert metadata == {"unit": unit.id, "release": unit.release}
    text = json.dumps(config)
    assert f'"max_message_timeout": "{settings.hold.patience:.0f}s"' in text
    assert '"message_timeout": "1s"' in text
    assert settings.hold.gap < 1


def test_the_demo_changes_only_ports_and_where_unit_a_reads_its_hosts(topology: Topology) -> None:
    shipped = yaml.safe_load((envoy.standalone() / "envoy.yaml").read_text())
    ours = yaml.safe_load(topology.envoy_file.read_text())

    def without(config: Any) -> Any:
        same = envoy.with_ports(config, dict.fromkeys(ports_of(config), 0))
        for cluster in same["static_resources"]["clusters"]:
            if cluster["name"] == "unit_a":
                for key in ("type", "load_assignment", "eds_cluster_config"):
                    cluster.pop(key, None)
        return same

    assert without(ours) == without(shipped)
    assert set(ports_of(shipped)).isdisjoint(ports_of(ours))


def test_a_roll_out_names_the_new_build_and_its_release(topology: Topology) -> None:
    topology.route(topology.rollout)
    (assignment,) = yaml.safe_load((topology.folder / "unit_a.yaml").read_text())["resources"]
    (host,) = assignment["endpoints"][0]["lb_endpoints"]
    assert list(ports_of(host)) == [topology.rollout.port, topology.sidecar]
    check = host["endpoint"]["health_check_config"]
    assert check["hostname"] == f"{topology.rollout.unit}@{topology.rollout.host}"
    assert host["metadata"]["filter_metadata"]["semantic.extproc"]["release"] == "r2"


def test_a_port_that_nobody_replaces_is_an_error() -> None:
    with pytest.raises(KeyError):
        envoy.with_ports({"port_value": 1}, {2: 3})


def test_the_answers_of_each_build_name_it(topology: Topology) -> None:
    builds = (topology.healthy, topology.rollout, topology.fallback)
    assert len({build.alias for build in builds}) == len({build.port for build in builds}) == 3
