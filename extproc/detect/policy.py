"""What an operator, or a model's own history, changes about the detectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from extproc.detect.finding import Finding, Weight


@dataclass(frozen=True, slots=True)
class Baseline:
    """What is ordinary for one model: factors on thresholds, and reasons that prove nothing here.

    ``factors``: a finding of that name counts only when its value is at least so many times its
    threshold. ``ordinary``: findings of that name become notes: this model does so when healthy.
    Both are keyed ``detector.reason``.
    """

    factors: Mapping[str, float] = field(default_factory=dict)
    ordinary: frozenset[str] = frozenset()

    def weigh(self, finding: Finding) -> Finding | None:
        """The finding as it counts for this model, None if it does not."""
        name = finding.name
        if name in self.ordinary:
            return finding._replace(weight=Weight.NOTE)
        factor = self.factors.get(name)
        if factor is not None and finding.value < factor * finding.threshold:
            return None
        return finding

    @classmethod
    def learn(
        cls, healthy: Iterable[Iterable[Finding]], rate: float = 0.02, least: int = 3
    ) -> Baseline:
        """From the findings of responses that are known to be healthy: one entry a response.

        A reason found in more than ``rate`` of them, and in ``least``, is ordinary.
        """
        counts: Counter[str] = Counter()
        total = 0
        for findings in healthy:
            total += 1
            counts.update({finding.name for finding in findings})
        return cls(
            ordinary=frozenset(
                name for name, count in counts.items() if count >= least and count > rate * total
            )
        )


NO_BASELINE = Baseline()


@dataclass(frozen=True, slots=True)
class Policy:
    """A unit's own rules.

    ``off``: detectors that do not run. ``hints``: names (``detector`` or ``detector.reason``)
    whose proofs count as hints. ``baseline``: of the model.
    """

    off: frozenset[str] = frozenset()
    hints: frozenset[str] = frozenset()
    baseline: Baseline = NO_BASELINE

    def weigh(self, finding: Finding) -> Finding | None:
        """The finding as it counts for this unit, None if it does not."""
        if finding.weight is Weight.PROOF and (
            finding.detector in self.hints or finding.name in self.hints
        ):
            finding = finding._replace(weight=Weight.HINT)
        return finding if self.baseline is NO_BASELINE else self.baseline.weigh(finding)


DEFAULT_POLICY = Policy()
