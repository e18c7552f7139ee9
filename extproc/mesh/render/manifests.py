"""Kubernetes manifests with comments."""

from __future__ import annotations

from extproc.mesh.render.messages import Tree
from extproc.mesh.render.plan import Plan
from extproc.mesh.render.versions import Version
from extproc.mesh.render.why import WHY
from extproc.mesh.render.yaml import Notes, comment, dump

_MODES = {
    "two-tier": "a corrupt beginning is retried on the next unit",
    "observe": "the sidecar gets copies; nothing is held, nothing retried",
    "shadow": "as two-tier, and a candidate gets copies of requests",
}


def document(text: str, *manifests: Tree) -> str:
    """A file: its heading, then the manifests. Every comment stands once."""
    notes = Notes(WHY)
    return "\n".join(comment(text)) + "\n" + "---\n".join(dump(each, notes) for each in manifests)


def title(target: str, *lines: str) -> str:
    """The first lines of every file."""
    command = f"Written by `semantic-extproc render --target {target}`: change extproc.yaml, not "
    return "\n".join((command + "this.", *lines))


def heading(made: Plan, version: Version, target: str, *lines: str) -> str:
    """A whole heading: mode and version, ``lines``, and what was left out."""
    mode = made.settings.mesh.mode
    order = "; ".join(
        f"{entry.cluster}: {', then '.join(tier.id for tier in entry.tiers)}"
        for entry in made.fronts
    )
    left_out = [
        line
        for feature in version.lacking
        for line in ("", f"Left out for Envoy {version}: {feature.without}.")
    ]
    return title(
        target,
        f"Mode {mode}: {_MODES[mode]}. Order of units: {order}. Needs Envoy {version.needed} or "
        "later.",
        "",
        *lines,
        *left_out,
    )
