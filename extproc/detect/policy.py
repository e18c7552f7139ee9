"""What an operator, or a model's own history, changes about the detectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from extproc.detect.finding import Finding, Weight


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules of one unit, or what is ordinary for one model.

    ``off``: detectors that do not run. ``thresholds``: ``detector.path`` -> value, in place of the
    default. ``hints``: names whose proofs count as hints. ``ordinary``: names whose findings prove
    nothing here and become notes. A name is ``detector`` or ``detector.reason``.
    """

    off: frozenset[str] = frozenset()
    thresholds: Mapping[str, float] = field(default_factory=dict)
    hints: frozenset[str] = frozenset()
    ordinary: frozenset[str] = frozenset()

    def weigh(self, finding: Finding) -> Finding:
        """The finding with the weight that it has here."""
        if finding.detector in self.ordinary or finding.name in self.ordinary:
            return finding._replace(weight=Weight.NOTE)
        if finding.weight is Weight.PROOF and (
            finding.detector in self.hints or finding.name in self.hints
        ):
            return finding._replace(weight=Weight.HINT)
        return finding

    def under(self, other: Policy) -> Policy:
        """Both together; where both set a threshold, the other's counts."""
        return Policy(
            self.off | other.off,
            {**self.thresholds, **other.thresholds},
            self.hints | other.hints,
            self.ordinary | other.ordinary,
        )


DEFAULT_POLICY = Policy()


def learn(healthy: Iterable[Iterable[Finding]], rate: float = 0.02, least: int = 3) -> Policy:
    """A model's baseline from the findings of responses known to be healthy, one entry a response.

    A reason that speaks against more than ``rate`` of them, and against ``least``, is ordinary.
    """
    counts: Counter[str] = Counter()
    total = 0
    for findings in healthy:
        total += 1
        counts.update({f.name for f in findings if f.weight is not Weight.NOTE})
    return Policy(
        ordinary=frozenset(
            name for name, count in counts.items() if count >= least and count > rate * total
        )
    )
