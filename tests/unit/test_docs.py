"""Documents name what exists, all of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from extproc.config import Settings
from extproc.health import Ledger
from extproc.signals import Metrics

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_metrics_page_lists_exactly_the_metrics_that_exist() -> None:
    metrics = Metrics()
    metrics.watch(Ledger())
    exist = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in metrics.registry.collect()
    }
    listed = set(re.findall(r"^\| `(\w+)` \|", (DOCS / "metrics.md").read_text(), re.M))
    assert listed == exist


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
