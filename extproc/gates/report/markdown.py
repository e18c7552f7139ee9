"""Markdown for a pull request."""

from __future__ import annotations

import re

from extproc.gates.outcome import GateResult, Status
from extproc.gates.run import Report

SIGNS = {
    Status.PASSED: "✅",
    Status.FAILED: "❌",
    Status.UNDECIDED: "❔",
    Status.SKIPPED: "➖",
    Status.MISSED: "⚠️",
}


def markdown(report: Report) -> str:
    """The text: what came out, gate by gate, and what was done about it."""
    subject = report.subject
    lines = [
        f"## {SIGNS[report.status]} Release gates: {report.status.value}",
        "",
        f"Release `{_code(subject.release)}`, model `{_code(subject.model or 'as served')}`, "
        + (
            f"against `{_code(subject.baseline)}`."
            if subject.baseline
            else "without a baseline server."
        ),
        "",
        "| gate | result | checks | time |",
        "|---|---|---|---|",
    ]
    for gate in report.gates:
        lines.append(
            f"| {_gate(gate)} | {SIGNS[gate.status]} {gate.status.value} | {_counts(gate)} "
            f"| {gate.seconds:.1f} s |"
        )
    for gate in report.gates:
        shown = [check for check in gate.checks if check.status is not Status.PASSED]
        if shown:
            lines += ["", f"**{_gate(gate)}**", ""]
            lines += [
                f"- {SIGNS[check.status]} `{_code(check.name)}`: {_plain(check.reason)}"
                for check in shown
            ]
    if report.rollback:
        lines += ["", "**Rollback**", ""]
        lines += [f"- `{condition.value}`" for condition in report.rollback]
        lines += [
            f"- {delivery.receiver}: {delivery.outcome}"
            + (f" ({_plain(delivery.reason)})" if delivery.reason else "")
            for delivery in report.deliveries
        ]
    if subject.notes:
        lines += ["", *(f"> {_plain(note)}" for note in subject.notes)]
    if report.path:
        lines += ["", "<details><summary>Execution path</summary>", "", "| field | value |"]
        lines += ["|---|---|"]
        lines += [
            f"| `{_code(str(name))}` | {_plain(str(value))} |"
            for name, value in report.path.items()
        ]
        lines += ["", "</details>"]
    return "\n".join(lines) + "\n"


def _gate(gate: GateResult) -> str:
    title = gate.name.removeprefix(f"gate_{gate.number}_").replace("_", " ")
    return f"{gate.number} {title}" if gate.number else title


def _counts(gate: GateResult) -> str:
    found = [(status, sum(c.status is status for c in gate.checks)) for status in Status]
    return ", ".join(f"{number} {status.value}" for status, number in found if number)


def _plain(text: str) -> str:
    """Text that means nothing to Markdown or HTML, on one line."""
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_\[\]|#~])", r"\\\1", text)


def _code(text: str) -> str:
    return " ".join(text.split()).replace("`", "'").replace("|", "\\|")
