"""JUnit XML, as CI systems read it: a suite for each gate, a case for each check.

``missed`` samples are passed cases with a note, because the check of the rate decides; what is
``undecided`` is skipped with its reason. The format: https://github.com/testmoapp/junitxml
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree import ElementTree as Tree

from extproc.gates.outcome import Check, Status
from extproc.gates.run import Report

_NO_XML = re.compile(r"[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Report) -> str:
    """The document."""
    cases = [check for gate in report.gates for check in gate.checks]
    root = Tree.Element(
        "testsuites",
        name=_text(f"semantic-extproc gates: {report.subject.release}"),
        tests=str(len(cases)),
        failures=str(_count(cases, Status.FAILED)),
        errors="0",
        time=f"{sum(check.seconds for check in cases):.3f}",
    )
    for gate in report.gates:
        suite = Tree.SubElement(
            root,
            "testsuite",
            name=gate.name,
            tests=str(len(gate.checks)),
            failures=str(_count(gate.checks, Status.FAILED)),
            errors="0",
            skipped=str(
                _count(gate.checks, Status.SKIPPED) + _count(gate.checks, Status.UNDECIDED)
            ),
            time=f"{gate.seconds:.3f}",
            timestamp=report.started.removesuffix("+00:00"),
        )
        for check in gate.checks:
            case = Tree.SubElement(
                suite,
                "testcase",
                name=_text(check.name),
                classname=gate.name,
                time=f"{check.seconds:.3f}",
            )
            if check.status is Status.FAILED:
                kind = ", ".join(condition.value for condition in check.conditions) or "failed"
                failure = Tree.SubElement(
                    case, "failure", message=_text(check.reason), type=_text(kind)
                )
                failure.text = _text(
                    "\n".join(f"{name}: {value}" for name, value in check.measured.items())
                )
            elif check.status in (Status.SKIPPED, Status.UNDECIDED):
                Tree.SubElement(
                    case, "skipped", message=_text(f"{check.status.value}: {check.reason}")
                )
            else:
                Tree.SubElement(case, "system-out").text = _text(
                    f"{check.status.value}: {check.reason}"
                )
    Tree.indent(root)
    return Tree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _count(checks: Iterable[Check], status: Status) -> int:
    return sum(check.status is status for check in checks)


def _text(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)
