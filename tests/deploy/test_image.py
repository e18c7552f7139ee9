"""The Dockerfile is sound, and copies what it may."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

from extproc.config.load import load
from tests.deploy.tools import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_hadolint_finds_nothing() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("hadolint")), str(ROOT / "Dockerfile")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_what_is_copied_is_in_the_context() -> None:
    let_in = [
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    ]
    copied = [
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.M)
        for source in line.split()[:-1]
    ]
    assert copied
    for source in copied:
        assert (ROOT / source).exists(), source
        assert any(source == name or source.startswith(f"{name}/") for name in let_in), source


def test_the_build_has_what_the_wheel_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {*wheel["packages"], *wheel["force-include"], project["project"]["readme"]}
    copied = set(" ".join(re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.M)).split())
    assert needed <= copied


def test_the_image_listens_where_it_says() -> None:
    settings = load(ROOT / "deploy" / "docker" / "extproc.yaml")
    exposed = re.findall(r"^EXPOSE (.+)$", DOCKERFILE, re.M)[0].split()
    addresses = [settings.grpc.address, settings.admin.address]
    assert addresses == [f":{port}" for port in exposed]


def test_it_runs_as_the_user_that_kubernetes_is_told() -> None:
    user = re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.M)[-1]
    for name in ("service/deployment.yaml", "sidecar/patch.yaml"):
        text = (ROOT / "deploy" / "kubernetes" / name).read_text()
        assert yaml.safe_load(text)
        assert f"runAsUser: {user[0]}" in text
        assert f"runAsGroup: {user[1]}" in text


def test_its_version_is_the_packages() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for base in ("service", "sidecar"):
        content = yaml.safe_load(
            (ROOT / "deploy/kubernetes" / base / "kustomization.yaml").read_text()
        )
        assert content["images"] == [{"name": "semantic-extproc", "newTag": version}]
