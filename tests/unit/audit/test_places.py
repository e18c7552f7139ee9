"""Findings name the file and the line, whatever the files are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from extproc.cli import app
from extproc.demo.envoy import standalone
from extproc.mesh.audit.places import MOST, Places
from tests.unit.audit.good import check, cluster, good, processor, settings


def findings(*arguments: str) -> dict[str, dict[str, Any]]:
    """By the check's name."""
    result = CliRunner().invoke(app, ["audit", "--json", *arguments])
    return {found["id"]: found for found in json.loads(result.stdout)["findings"]}


def line(path: Path, text: str, after: str = "") -> int:
    """The first line that holds ``text``, below the one that holds ``after``."""
    content = path.read_text()
    start = content.index(after)
    return content[: content.index(text, start)].count("\n") + 1


def test_a_wrong_value_is_on_its_line(tmp_path: Path) -> None:
    path = tmp_path / "envoy.yaml"
    text = (standalone() / "envoy.yaml").read_text()
    path.write_text(text.replace("max_ejection_percent: 50", "max_ejection_percent: 10"))
    found = findings(str(path))["ejection-percent"]
    assert found["file"] == str(path)
    assert found["line"] == line(path, "max_ejection_percent: 10")


def test_a_missing_value_is_on_the_line_of_what_it_is_missing_in(tmp_path: Path) -> None:
    path = tmp_path / "envoy.yaml"
    config = good()
    del check(config)["unhealthy_threshold"]
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    found = findings(str(path))["unhealthy-threshold"]
    assert found["line"] == line(path, "- timeout: 0.5s", after="name: llm")


def test_of_several_files_the_right_one_is_named(tmp_path: Path) -> None:
    config = good()
    processor(config)["failure_mode_allow"] = False
    clusters = config["static_resources"].pop("clusters")
    one, two = tmp_path / "listeners.json", tmp_path / "clusters.yaml"
    one.write_text(json.dumps(config, indent=2))
    del clusters[0]["common_lb_config"]["update_merge_window"]
    two.write_text(
        "---\n---\n" + yaml.safe_dump({"static_resources": {"clusters": clusters}}, sort_keys=False)
    )
    found = findings(str(one), str(two))
    assert found["failure-mode-closed"]["file"] == str(one)
    assert found["failure-mode-closed"]["line"] == line(one, '"failure_mode_allow": false')
    assert found["update-merge-window"]["file"] == str(two)
    assert found["update-merge-window"]["line"] == line(two, "common_lb_config:")


def test_inside_a_config_map_the_line_is_that_of_the_manifest(tmp_path: Path) -> None:
    config = good()
    cluster(config)["outlier_detection"]["max_ejection_percent"] = 10
    inner = yaml.safe_dump(config, sort_keys=False)
    path = tmp_path / "configmap.yaml"
    path.write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: envoy}\ndata:\n  envoy.yaml: |\n"
        + "".join(f"    {row}\n" for row in inner.splitlines())
    )
    found = findings(str(path))["ejection-percent"]
    assert found["line"] == line(path, "max_ejection_percent: 10")


def test_a_fault_of_extproc_yaml_is_on_its_line(tmp_path: Path) -> None:
    path = tmp_path / "extproc.yaml"
    own = settings()
    own["units"][0]["clusters"] = ["misspelt"]
    path.write_text(yaml.safe_dump(own, sort_keys=False))
    shipped = str(standalone() / "envoy.yaml")
    found = findings(shipped, "--config", str(path))["cluster-unknown-to-envoy"]
    assert (found["file"], found["line"]) == (str(path), line(path, "clusters:"))


def test_what_is_brought_by_an_anchor_is_on_the_anchors_line() -> None:
    places = Places()
    text = "a: &shared\n  x: 1\nb:\n  <<: *shared\n  y: 2\n"
    places.add("f", text, 1)
    assert places.of("b.x") == ("f", 2)
    assert places.of("b.y") == ("f", 5)
    assert places.of("b.z") == ("f", 3)


def test_what_is_in_no_file_has_no_place() -> None:
    places = Places()
    assert places.of("static_resources") is None
    places.add("f", "a: 1", 1)
    assert places.of("stats: cluster.llm.lb_healthy_panic") is None
    assert places.of("extproc.yaml: units[0]") is None
    assert places.of("document[1].a") is None


def test_a_large_file_is_named_and_not_searched() -> None:
    places = Places()
    places.add("f", '{"a": 1}' + " " * MOST, 1)
    assert places.of("a") == ("f", None)


def test_the_sidecars_file_among_envoys_is_noticed(tmp_path: Path) -> None:
    folder = standalone()
    files = [str(folder / "envoy.yaml"), str(folder / "extproc.yaml")]
    result = CliRunner().invoke(app, ["audit", *files])
    assert result.exit_code == 0
    assert f"note: {files[1]}:" in result.stdout
    assert "--config" in result.stdout
