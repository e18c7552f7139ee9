"""Documents name what exists, all of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from extproc.config import Settings
from tests.observability.catalogue import catalogue

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_metrics_page_lists_exactly_the_metrics_that_exist_with_their_labels() -> None:
    rows = re.findall(r"^\| `(\w+)` \|([^|]*)\|", (DOCS / "metrics.md").read_text(), re.M)
    listed = {name: set(re.findall(r"\w+", labels)) for name, labels in rows}
    assert listed == {name: set(labels) for name, labels in catalogue().items()}


def _names(schema: dict[str, Any], definitions: dict[str, Any]) -> set[str]:
    found = set()
    for name, field in schema.get("properties", {}).items():
        found.add(name)
        for reference in re.findall(r"#/\$defs/(\w+)", str(field)):
            found |= _names(definitions[reference], definitions)
    return found


def test_the_configuration_page_names_every_setting() -> None:
    schema = Settings.model_json_schema()
    text = (DOCS / "configuration.md").read_text()
    missing = [
        name for name in _names(schema, schema["$defs"]) if not re.search(rf"\b{name}\b", text)
    ]
    assert not missing
