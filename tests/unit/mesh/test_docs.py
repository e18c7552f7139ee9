"""What docs/mesh.md tells people to write can be rendered."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from extproc.config import parse
from extproc.mesh.render import Target, render
from tests.mesh import setups

DOCS = Path(__file__).resolve().parents[3] / "docs"
TEXT = (DOCS / "mesh.md").read_text()
TITLES = {Target.STANDALONE: "Standalone", Target.ISTIO: "Istio"}


@pytest.mark.parametrize("target", TITLES)
def test_the_settings_of_each_quick_start_render(target: Target) -> None:
    section = TEXT.partition(f"\n## {TITLES[target]}\n")[2].partition("\n## ")[0]
    block = re.findall(r"```yaml\n(.*?)```", section, re.S)[0]
    assert render(parse(block, "mesh.md"), target).warnings == ()


def test_the_documented_addresses_are_workers_of_one_cluster() -> None:
    section = TEXT.partition("\n## The sidecar's addresses\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```yaml\n(.*?)```", section, re.S)
    tree, settings = setups.changed(Target.STANDALONE, yaml.safe_load(block))
    files = render(settings, Target.STANDALONE).files
    assert "path: /run/semantic/grpc.sock.1" in files["envoy.yaml"]
    assert tree["mesh"]["sidecar"]["health"] == "127.0.0.1:18081"


def test_every_version_that_is_tested_is_a_column_of_the_page() -> None:
    from tests.mesh.binaries import VERSIONS

    head = re.search(r"^\| \| (.*) \|$", (DOCS / "envoy-versions.md").read_text(), re.M)
    assert head is not None
    assert tuple(head[1].split(" | ")) == VERSIONS
