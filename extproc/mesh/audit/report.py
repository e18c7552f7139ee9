"""A report as JSON, whose shape stays, and as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from extproc.mesh.audit.finding import Finding, Severity
from extproc.mesh.audit.places import written
from extproc.mesh.audit.questions import Answer

if TYPE_CHECKING:
    from rich.text import Text

    from extproc.mesh.audit import Report

VERSION = 1
"""Of the JSON shape. Fields may be added under it; none changes its meaning or goes."""

STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
ANSWERS = {Answer.YES: "bold green", Answer.NO: "bold red", Answer.CANNOT_TELL: "yellow"}


def as_json(report: Report) -> dict[str, Any]:
    """The object that ``--json`` prints."""
    return {
        "version": VERSION,
        "source": report.source,
        "envoy": report.version or None,
        "questions": [
            {
                "id": question.id,
                "question": question.question,
                "answer": str(question.answer),
                "why": question.why,
                "evidence": list(question.evidence),
            }
            for question in report.questions
        ],
        "findings": [
            {
                "id": finding.id,
                "severity": str(finding.severity),
                "where": finding.where,
                "file": finding.place[0] if finding.place else None,
                "line": finding.place[1] if finding.place else None,
                "why": finding.why,
                "fix": finding.fix,
            }
            for finding in report.findings
        ],
        "notes": list(report.notes),
        "summary": {str(severity): report.count(severity) for severity in Severity},
    }


def lines(report: Report) -> Iterator[Text]:
    """The report for people: the answers, then what was found, each check once."""
    from rich.text import Text

    for number, question in enumerate(report.questions, 1):
        yield Text.assemble(f"{number}. {question.question}  ", _answer(question.answer))
        yield Text(f"   {question.why}")
        for line in question.evidence:
            yield Text(f"   - {line}", style="dim")
        yield Text()
    for group in _groups(report.findings):
        yield from _group(group)
    for note in report.notes:
        yield Text(f"note: {note}", style="dim")
    if report.notes:
        yield Text()
    counts = ", ".join(
        f"{count} {_plural(severity, count)}"
        for severity in Severity
        if (count := report.count(severity))
    )
    yield Text(f"{report.source}: {counts or 'nothing found'}", style="bold")


def _answer(answer: Answer) -> tuple[str, str]:
    return (str(answer).replace("-", " ").upper(), ANSWERS[answer])


def _plural(severity: Severity, count: int) -> str:
    return str(severity) if count == 1 or severity is Severity.INFO else f"{severity}s"


def _groups(findings: tuple[Finding, ...]) -> list[list[Finding]]:
    found: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        found.setdefault((finding.severity, finding.id, finding.fix), []).append(finding)
    return list(found.values())


def _group(group: list[Finding]) -> Iterator[Text]:
    from rich.text import Text

    first = group[0]
    yield Text.assemble(
        (str(first.severity), STYLES[first.severity]),
        "  ",
        (first.id, "bold"),
        f"  {first.check.title}",
    )
    for finding in group:
        said = f": {finding.said}" if finding.said else ""
        yield Text(f"  at {written(finding.place)}{finding.where}{said}")
    yield Text(f"  {first.check.why}", style="dim")
    for line in first.fix.splitlines():
        yield Text(f"    | {line}", style="green")
    yield Text()
