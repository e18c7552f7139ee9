"""Audits Envoy's configuration: does it find, and leave, a unit that answers garbage?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from extproc.config import Settings
from extproc.mesh.audit.catalogue import CATALOGUE, as_markdown
from extproc.mesh.audit.finding import Check, Finding, Severity, run
from extproc.mesh.audit.gather import build
from extproc.mesh.audit.node import Misshapen
from extproc.mesh.audit.places import Places, written
from extproc.mesh.audit.questions import Answer, Question, ask
from extproc.mesh.audit.reach import Mesh
from extproc.mesh.audit.source import Unusable, gather, parse
from extproc.mesh.audit.world import Live

__all__ = [
    "CATALOGUE",
    "Answer",
    "Check",
    "Finding",
    "Places",
    "Question",
    "Report",
    "Severity",
    "Unusable",
    "as_markdown",
    "audit",
    "parse",
]


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that an audit says, errors first."""

    source: str
    questions: tuple[Question, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    version: str = ""
    """Of the running Envoy, if one was asked."""

    def count(self, severity: Severity) -> int:
        """How many findings have a severity."""
        return sum(finding.severity is severity for finding in self.findings)

    def failed(self, strict: bool) -> bool:
        """Whether there are errors; with ``strict``, or warnings."""
        return bool(self.count(Severity.ERROR) or (strict and self.count(Severity.WARNING)))


def audit(
    documents: list[Any],
    source: str,
    *,
    settings: Settings | None = None,
    live: Live | None = None,
    runtime: Mapping[str, Any] | None = None,
    sidecar: Mapping[str, Any] | None = None,
    sidecar_cluster: str = "",
    places: Places | None = None,
) -> Report:
    """Audits parsed documents. Raises Unusable when they are none that can be audited.

    ``places``: the files that they come from, so that findings name file and line.
    """
    places = places or Places()
    try:
        found = gather(documents, source)
        world = build(found)
        world = replace(
            world,
            settings=settings,
            live=live,
            runtime={**world.runtime, **(runtime or {})},
            sidecar=sidecar,
            sidecar_cluster=sidecar_cluster,
        )
        mesh = Mesh(world)
        findings = [finding for check in CATALOGUE for finding in run(check, mesh)]
        findings = [replace(finding, place=places.of(finding.path)) for finding in findings]
        findings.sort(key=lambda finding: list(Severity).index(finding.severity))
        questions = ask(mesh, findings)
    except Misshapen as error:
        at = written(places.of(error.path) or (source, None))
        raise Unusable(f"{at}{error}") from None
    version = live.version if live is not None else ""
    notes = tuple(places.named(note) for note in world.notes)
    return Report(source, questions, tuple(findings), notes, version)
