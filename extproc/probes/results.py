"""What probes found out: the last result of each cell, with the release it belongs to. Pure."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from extproc.detect import Finding, Weight
from extproc.probes.kinds import NAMES, Outcome


class Cell(NamedTuple):
    """One place of the matrix. ``context``: a context class."""

    unit: str
    context: str
    kind: str


@dataclass(frozen=True, slots=True)
class Result:
    """What one probe came to. ``at``: Unix time in seconds; ``seconds``: what it took; tokens as
    the server counts them, -1 where it does not.

    ``charged``: whether it was taken as evidence against the unit. ``corroborated``: how far the
    engine's own count of corrupted requests rose meanwhile, -1 where it has none. No text of a
    prompt or an answer is in it.
    """

    cell: Cell
    release: str
    identity: str
    outcome: Outcome
    at: float
    reason: str = ""
    findings: tuple[Finding, ...] = ()
    proof: bool = False
    charged: bool = False
    seconds: float = 0.0
    requests: int = 0
    prompt_tokens: int = -1
    completion_tokens: int = -1
    corroborated: float = -1.0

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        content = asdict(self)
        content |= {"cell": list(self.cell), "outcome": self.outcome.value}
        content["findings"] = [
            {
                "detector": finding.detector,
                "reason": finding.reason,
                "value": finding.value if math.isfinite(finding.value) else None,
                "threshold": finding.threshold,
                "weight": finding.weight.value,
                "shape": finding.shape,
            }
            for finding in self.findings
        ]
        return content

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Result:
        """The result that ``as_dict`` described. Raises KeyError, TypeError or ValueError."""
        found = dict(content)
        unit, context, kind = found["cell"]
        found["cell"] = Cell(str(unit), str(context), str(kind))
        found["outcome"] = Outcome(found["outcome"])
        found["findings"] = tuple(
            Finding(
                str(each["detector"]),
                str(each["reason"]),
                math.nan if each["value"] is None else float(each["value"]),
                float(each["threshold"]),
                Weight(each["weight"]),
                str(each["shape"]),
            )
            for each in found["findings"]
        )
        return cls(**found)

    def shown(self) -> dict[str, Any]:
        """As the API shows it."""
        content = self.as_dict()
        del content["cell"], content["identity"]
        return {"class": self.cell.context, "kind": self.cell.kind, **content}


class Results:
    """The last result of every cell, and what each unit was once able to do."""

    def __init__(self) -> None:
        self._last: dict[Cell, Result] = {}
        self._able: set[tuple[str, str, str]] = set()  # model or unit, context class, kind

    def put(self, result: Result, model: str) -> None:
        """Takes a result. ``model``: of the unit, "" where none is named."""
        self._last[result.cell] = result
        if result.outcome is Outcome.PASSED:
            self._able.add((model or result.cell.unit, result.cell.context, result.cell.kind))

    def last(self, cell: Cell) -> Result | None:
        """The last result of a cell, of whatever release."""
        return self._last.get(cell)

    def able(self, cell: Cell, model: str) -> bool:
        """Whether this unit, or another that serves the same model, has passed here before."""
        return (model or cell.unit, cell.context, cell.kind) in self._able

    def of_unit(self, unit: str) -> list[Result]:
        """Those of one unit, in the order of kinds within each class."""
        found = [result for cell, result in self._last.items() if cell.unit == unit]
        order = {name: place for place, name in enumerate(NAMES)}
        return sorted(found, key=lambda r: (r.cell.context, order.get(r.cell.kind, len(order))))

    def forget(self, units: set[str]) -> None:
        """Drops what is known of units that are not among ``units``."""
        self._last = {cell: each for cell, each in self._last.items() if cell.unit in units}

    def snapshot(self) -> dict[str, Any]:
        """All of it, as JSON values."""
        return {
            "results": [result.as_dict() for result in self._last.values()],
            "able": sorted(list(each) for each in self._able),
        }

    def restore(self, content: dict[str, Any]) -> None:
        """Takes back a snapshot; of two results of a cell the later holds. Raises ValueError, and
        changes nothing, if it cannot be read."""
        try:
            results = [Result.from_dict(each) for each in content["results"]]
            able = {(str(a), str(b), str(c)) for a, b, c in content["able"]}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"results of probes that cannot be read: {error!r}") from None
        for result in results:
            known = self._last.get(result.cell)
            if known is None or known.at <= result.at:
                self._last[result.cell] = result
        self._able |= able
