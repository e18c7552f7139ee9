"""Which files are made, and of what."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from extproc.mesh.audit import as_markdown
from tools.prometheus_rule import manifest
from tools.settings_reference import reference

ROOT = Path(__file__).resolve().parents[1]


def generated() -> Iterator[tuple[Path, str]]:
    """Each file that is made, wholly or in part, with the text that it must have."""
    rules = ROOT / "envoy/prometheus"
    yield rules / "prometheusrule.yaml", manifest((rules / "rules.yaml").read_text())
    page = ROOT / "docs/configuration.md"
    yield page, spliced(page.read_text(), "settings", reference())
    page = ROOT / "docs/audit.md"
    yield page, spliced(page.read_text(), "checks", as_markdown())


def spliced(text: str, part: str, content: str) -> str:
    """``text`` with ``content`` between the marks of ``part``. Raises ValueError without them."""
    begin, end = f"<!-- {part}: made by `make docs` -->", f"<!-- end of {part} -->"
    new, count = re.subn(
        f"{re.escape(begin)}.*?{re.escape(end)}",
        lambda _: f"{begin}\n\n{content.strip()}\n\n{end}",
        text,
        count=1,
        flags=re.DOTALL,
    )
    if not count:
        raise ValueError(f"the marks of {part} are missing")
    return new
