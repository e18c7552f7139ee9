"""What is rendered for an Envoy version is taken by it, and works there."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from extproc.mesh.render import Version
from tests.e2e.conftest import Make, gateway
from tests.e2e.gateway import Setup, eventually
from tests.e2e.upstream import BANG_JSON, BANG_STREAM, OTHER_STREAM, answers
from tests.mesh import setups
from tests.mesh.binaries import VERSIONS, Unavailable, binary

__all__ = ["gateway"]


@pytest.fixture(params=VERSIONS)
def envoy(request: pytest.FixtureRequest) -> tuple[Version, Path]:
    try:
        return Version.parse(request.param), binary(request.param)
    except Unavailable as missing:
        if os.environ.get("SEMANTIC_EXTPROC_TEST_ENVOYS") == "required":
            raise
        pytest.skip(str(missing))


def accepted(path: Path, setup: Setup, folder: Path) -> str:
    """What the binary says against a configuration; "" if it takes it."""
    for name, content in setup.files.items():
        (folder / name).write_text(json.dumps(content))
    (folder / "envoy.yaml").write_text(json.dumps(setup.envoy))
    command = [str(path), "--mode", "validate", "-c", str(folder / "envoy.yaml"), "-l", "error"]
    command += ["--use-dynamic-base-id", "--service-node", "t", "--service-cluster", "t"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stderr if done.returncode else ""


def test_every_target_and_mode_is_accepted(envoy: tuple[Version, Path], tmp_path: Path) -> None:
    version, path = envoy
    setups.server_tls(tmp_path)
    for setup in (
        setups.standalone({}, version),
        setups.standalone({"mesh": {"mode": "observe"}}, version),
        setups.shadowed(version),
        setups.istio(tmp_path, {}, version),
        setups.gateway(tmp_path, {}, version),
    ):
        assert accepted(path, setup, tmp_path) == ""


async def test_garbage_is_retried_and_ejected_in_every_version(
    envoy: tuple[Version, Path], gateway: Make
) -> None:
    version, path = envoy
    setup = replace(setups.standalone({}, version), binary=path)
    g = await gateway(answers(BANG_STREAM, BANG_JSON), setup=setup)
    for _ in range(3):
        got = await g.ask(stream=True)
        assert got.body == b"".join(OTHER_STREAM)
        assert got.headers["x-semantic-unit"] == "unit-b"

    async def ejected() -> bool:
        return "failed_outlier_check" in await g.flags("unit_a")

    await eventually(ejected)
