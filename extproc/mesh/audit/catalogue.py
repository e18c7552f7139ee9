"""The catalogue: every check, by theme."""

from __future__ import annotations

from extproc.mesh.audit.checks import (
    agreement,
    attachment,
    balancing,
    exposure,
    identity,
    outlier,
    probing,
    processing,
    retrying,
    running,
    sidecar,
    streams,
    subsets,
)
from extproc.mesh.audit.finding import Check

THEMES = tuple(
    module.THEME
    for module in (
        attachment,
        processing,
        sidecar,
        retrying,
        balancing,
        outlier,
        probing,
        streams,
        identity,
        subsets,
        exposure,
        agreement,
        running,
    )
)

CATALOGUE: tuple[Check, ...] = tuple(check for theme in THEMES for check in theme.checks)


def as_markdown() -> str:
    """The catalogue as docs/audit.md holds it."""
    parts = []
    for theme in THEMES:
        parts += [
            f"### {theme.name}",
            "",
            "| id | severity | what is wrong, and what then happens |",
            "|---|---|---|",
        ]
        for check in theme.checks:
            why = check.why.replace("|", "\\|")
            parts.append(f"| `{check.id}` | {check.severity} | {check.title}. {why} |")
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"
