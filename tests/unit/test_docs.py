"""Documents name what exists, all of it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.observability.catalogue import catalogue
from tools.generated import generated

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_metrics_page_lists_exactly_the_metrics_that_exist_with_their_labels() -> None:
    rows = re.findall(r"^\| `(\w+)` \|([^|]*)\|", (DOCS / "metrics.md").read_text(), re.M)
    listed = {name: set(re.findall(r"\w+", labels)) for name, labels in rows}
    assert listed == {name: set(labels) for name, labels in catalogue().items()}


def test_generated_parts_are_up_to_date() -> None:
    stale = [path.name for path, text in generated() if path.read_text() != text]
    assert not stale, "run make docs"
