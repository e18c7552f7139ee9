"""A result, told to metrics and log."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from extproc.probes.budget import Budget
from extproc.probes.kinds import Outcome
from extproc.probes.matrix import Why
from extproc.probes.results import Result
from extproc.signals.probing import Probing

log = logging.getLogger(__name__)

WELL = (Outcome.PASSED, Outcome.SKIPPED)


def report(
    metrics: Probing, result: Result, why: Why, last: Iterable[Result | None], budget: Budget
) -> None:
    """``last``: the last results of all cells of the result's unit and class."""
    cell = result.cell
    tokens = max(0, result.prompt_tokens) + max(0, result.completion_tokens)
    metrics.result(cell.unit, cell.context, cell.kind, result.outcome.value, result.seconds, tokens)
    used = budget.used(result.at)
    for name, part, whole in zip(used._fields, used, budget.limit, strict=True):
        metrics.budget.labels(name).set(part / whole if whole else 1.0)
    if all(r is not None and r.identity == result.identity and r.outcome in WELL for r in last):
        metrics.passed(cell.unit, cell.context, result.at)
    log.log(
        logging.WARNING if result.outcome is Outcome.FAILED else logging.INFO,
        "probe %s of unit %s (%s): %s",
        cell.kind,
        cell.unit,
        cell.context,
        result.outcome.value,
        extra={
            "unit": cell.unit,
            "class": cell.context,
            "kind": cell.kind,
            "outcome": result.outcome.value,
            "release": result.release,
            "reason": result.reason,
            "why": why.value,
            "charged": result.charged,
            "findings": [finding.name for finding in result.findings],
        },
    )
