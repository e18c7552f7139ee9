"""``semantic-extproc render`` as a command."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from extproc.cli import app
from tests.mesh.setups import ENVOY

CONFIG = ENVOY / "standalone" / "extproc.yaml"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["render", *map(str, arguments)])


def test_standard_output_has_the_configuration_alone() -> None:
    done = run("--config", CONFIG)
    assert done.exit_code == 0
    assert done.stdout == (ENVOY / "standalone" / "envoy.yaml").read_text()
    several = run("--config", ENVOY / "istio" / "extproc.yaml", "--target", "istio")
    kinds = [entry["kind"] for entry in yaml.safe_load_all(several.stdout)]
    assert kinds == ["EnvoyFilter", "DestinationRule"]


def test_check_tells_a_difference_and_writes_nothing(tmp_path: Path) -> None:
    assert run("-c", CONFIG, "-o", tmp_path, "--check").exit_code == 1
    assert not list(tmp_path.iterdir())
    assert run("-c", CONFIG, "-o", tmp_path).exit_code == 0
    assert run("-c", CONFIG, "-o", tmp_path, "--check").exit_code == 0
    path = tmp_path / "envoy.yaml"
    text = path.read_text().replace("num_retries: 1", "num_retries: 3")
    path.write_text(text)
    done = run("-c", CONFIG, "-o", tmp_path, "--check")
    assert done.exit_code == 1
    assert "-                    num_retries: 3" in done.stdout
    assert path.read_text() == text


def test_check_without_a_folder_is_a_mistake() -> None:
    done = run("-c", CONFIG, "--check")
    assert done.exit_code == 2
    assert "-o DIR" in done.stderr


def test_problems_have_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "extproc.yaml"
    path.write_text("units:\n- id: a\n- id: b\n  hosts: ['1.2.3.4:5']\nhold: {gap: 2}\n")
    done = run("-c", path)
    assert done.exit_code == 2
    assert [line.partition(": ")[0] for line in done.stderr.splitlines()] == [f"{path}:5"]
    path.write_text("units:\n- id: a\n  fallback: [b]\n- id: b\n  hosts: ['1.2.3.4:5']\n")
    done = run("-c", path)
    assert done.stderr.startswith(f"{path}:2: units[0]: unit 'a' has no `hosts`")


def test_the_mode_of_the_command_line_wins(tmp_path: Path) -> None:
    done = run("-c", CONFIG, "--mode", "observe")
    assert "observability_mode: true" in done.stdout
    done = run("-c", CONFIG, "--mode", "shadow")
    assert done.exit_code == 2
    assert "mesh.shadow.unit" in done.stderr


def test_an_old_version_is_served_with_a_warning_on_standard_error() -> None:
    done = run("-c", CONFIG, "--envoy-version", "1.36")
    assert done.exit_code == 0
    assert "cluster_metadata_forwarding_namespaces:" not in done.stdout
    assert "warning: left out for Envoy 1.36" in done.stderr
    assert run("-c", CONFIG, "--envoy-version", "soon").exit_code == 2


@pytest.mark.parametrize("word", ["observe", "two-tier", "shadow", "Exit codes"])
def test_help_teaches(word: str) -> None:
    assert word in run("--help").stdout


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        arguments = ["--target", "standalone", "-c", str(CONFIG), "-o", str(folder)]
        result = CliRunner().invoke(app, ["render", *arguments])
        assert result.exit_code == 2
        assert str(tmp_path / "file") in result.stderr
        assert isinstance(result.exception, SystemExit)
