"""What is changed about the detectors, for all units, a model or one unit."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, ValidationInfo, field_validator

from extproc.config.base import Model
from extproc.detect import Policy, policy_problems

Threshold = Annotated[float, Field(ge=0)]


class JudgingModel(Model):
    """Names are those of ``semantic-extproc detectors``."""

    detectors_off: list[str] = Field([], description="detectors that do not judge")
    hints: list[str] = Field(
        [], description="detectors, or detector.reason, whose proofs make suspect only"
    )
    ordinary: list[str] = Field(
        [], description="detectors, or detector.reason, that are ordinary here and only noted"
    )
    thresholds: dict[str, Threshold] = Field(
        {}, description="detector.threshold -> value in place of the default"
    )

    def policy(self) -> Policy:
        """The same, as detection takes it."""
        return Policy(
            off=frozenset(self.detectors_off),
            thresholds=self.thresholds,
            hints=frozenset(self.hints),
            ordinary=frozenset(self.ordinary),
        )

    @field_validator("detectors_off", "hints", "ordinary", "thresholds")
    @classmethod
    def _known(cls, value: Any, info: ValidationInfo) -> Any:
        """Each by itself, so that a complaint has the line of its setting."""
        names = frozenset(value)
        policy = {
            "detectors_off": Policy(off=names),
            "hints": Policy(hints=names),
            "ordinary": Policy(ordinary=names),
            "thresholds": Policy(thresholds=dict.fromkeys(names, 0.0)),
        }[str(info.field_name)]
        if problems := policy_problems(policy):
            raise ValueError("; ".join(problems))
        return value
