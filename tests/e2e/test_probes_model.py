"""Probes of a real engine with a real model: healthy, and with faults of its weights."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from extproc.demo.processes import Processes
from extproc.probes.kinds import NAMES
from tests.e2e.engines import Engines

pytestmark = [pytest.mark.model, pytest.mark.timeout(300)]

GOLDEN = [
    {"prompt": "Why is the sky blue?", "expected": "sky", "match": "contains", "max_tokens": 24}
]
"""SmolLM2-135M is too small for "Reply with exactly: OK"."""


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    """One server a flavour for all tests."""
    folder = tmp_path_factory.mktemp("engines")
    with Processes(folder) as processes:
        yield Engines(folder, processes)


def probe(folder: Path, url: str, *arguments: str) -> tuple[int, list[dict[str, Any]], str]:
    """``semantic-extproc probe`` of a server: exit code, results, standard error."""
    (folder / "golden.json").write_text(json.dumps(GOLDEN))
    settings = {
        "context_classes": [{"name": "short", "up_to_bytes": 2048}],
        "probes": {"golden": str(folder / "golden.json")},
        "units": [{"id": "unit-a", "model": "SmolLM2", "probe": {"base_url": url}}],
    }
    (folder / "extproc.yaml").write_text(yaml.safe_dump(settings))
    command = [sys.executable, "-m", "extproc", "probe", "--json"]
    command += ["--config", str(folder / "extproc.yaml"), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def kinds_of(names: str) -> list[str]:
    """Options that choose these kinds."""
    return [option for name in names.split() for option in ("--kind", name)]


def test_a_healthy_engine_passes_every_kind_that_it_offers(
    engines: Engines, tmp_path: Path
) -> None:
    code, results, said = probe(tmp_path, engines.url("healthy"), "--class", "short")
    assert code == 0, (results, said)
    found = {result["kind"]: result["outcome"] for result in results}
    assert found == {kind: "skipped" if kind == "tools" else "passed" for kind in NAMES}


def test_a_healthy_engine_passes_in_a_longer_class(engines: Engines, tmp_path: Path) -> None:
    which = ["--class", "long", *kinds_of("long embedding")]
    code, results, said = probe(tmp_path, engines.url("healthy"), *which)
    assert code == 0, (results, said)
    assert [result["outcome"] for result in results] == ["passed", "passed"]
    assert results[0]["prompt_tokens"] > 700, "the model takes 1024"


@pytest.mark.parametrize(
    ("flavour", "kinds"),
    [
        ("nan", "golden chat long json logprobs embedding"),
        ("scaled", "golden chat"),
        ("f16_overflow", "chat logprobs embedding"),
    ],
)
def test_an_engine_with_faulty_weights_fails(
    engines: Engines, tmp_path: Path, flavour: str, kinds: str
) -> None:
    which = ["--class", "short", *kinds_of(kinds)]
    code, results, said = probe(tmp_path, engines.url(flavour), *which)
    assert code == 1, (results, said)
    assert [(r["kind"], r["outcome"]) for r in results] == [(k, "failed") for k in kinds.split()]
    assert any(result["proof"] for result in results)
    assert all(result["findings"] for result in results)
