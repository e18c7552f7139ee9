"""Gate 2: the same prompts on candidate and baseline, number by number."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from extproc.gates import drift
from extproc.gates.conditions import Condition
from extproc.gates.drift import Comparison, Trace
from extproc.gates.endpoint import Endpoint, declines, unanswered
from extproc.gates.measuring import PROMPTS, Measurements, NoWay
from extproc.gates.outcome import Check, failed, passed, skipped
from extproc.gates.outcome import Measured as Numbers
from extproc.gates.plan import Gate, Planned, digest
from extproc.gates.settings import Numerical
from extproc.gates.store import Approval
from extproc.probes import (
    BadStatus,
    NotJson,
    ProbeError,
    Way,
)

_NOT_FINITE = re.compile(r"out of range float|not json compliant|\b(?:nan|inf(?:inity)?)\b", re.I)
"""Servers that cannot write a NaN say so with an error (vLLM, starlette's JSON)."""


def numerical_gate(
    settings: Numerical,
    candidate: Endpoint,
    baseline: Endpoint | None,
    variants: Mapping[int, Endpoint],
    own_degree: int | None,
    approval: Approval | None,
) -> tuple[Gate, NumericalRun]:
    """The gate, and what it measured once it has run. ``variants``: servers by tensor-parallel
    degree; ``own_degree``: the candidate's. Without a baseline the approved reference serves."""
    run = NumericalRun(settings, candidate, baseline, approval)
    checks = []
    if settings.check_nan_inf:
        checks.append(Planned("nan_inf", run.finite))
    against = digest(run.reference) if baseline is None else baseline.identity
    for name, check in (
        ("logit_drift", run.logits),
        ("top_k_overlap", run.overlap),
        ("perplexity_drift", run.perplexity),
    ):
        checks.append(Planned(name, check, {"against": against}))
    for degree in settings.compare_tp_variants:
        if degree == own_degree and degree not in variants:
            continue
        endpoint = variants.get(degree)
        identity = endpoint.identity if endpoint is not None else None
        checks.append(Planned(f"tp_{degree}", run.variant(degree, endpoint), {"variant": identity}))
    inputs = {
        "settings": settings.model_dump(mode="json", exclude={"enabled"}),
        "prompts": digest(PROMPTS),
        **candidate.identity,
    }
    return Gate(2, "gate_2_numerical", tuple(checks), inputs), run


class NumericalRun:
    """Measures each server once, whatever checks ask for."""

    def __init__(
        self,
        settings: Numerical,
        candidate: Endpoint,
        baseline: Endpoint | None,
        approval: Approval | None,
    ) -> None:
        self._settings = settings
        self._candidate = candidate
        self._baseline = baseline
        self._approval = approval
        self.measurements = Measurements(settings, candidate, baseline)
        self.reference: Mapping[str, Any] = (
            approval.record.reference if approval is not None and baseline is None else {}
        )

    # -- checks -----------------------------------------------------------------------------------

    async def finite(self, _: tuple[Check, ...]) -> Check:
        name = "nan_inf"
        try:
            way = await self.measurements.way()
            before = await self.measurements.counted()
            found = await self.measurements.beside_baseline(way)
            counted = await self.measurements.counted() - before
        except NoWay as reason:
            return self._unmeasured(name, str(reason))
        except ProbeError as error:
            return self._refused(name, self._candidate.role, error, Condition.NOT_FINITE)
        if counted > 0:
            return failed(
                name,
                f"vLLM itself counts {counted:g} corrupted requests more (NaN in their logits)",
                Condition.NOT_FINITE,
                measured={"corrupted_requests": counted},
            )
        bad = drift.not_finite(found.traces)
        places = sum(len(trace.given) + len(trace.generated) for trace in found.traces)
        if bad:
            return failed(
                name,
                f"{bad} of {places} tokens have no finite log probability ({found.way})",
                Condition.NOT_FINITE,
                measured={"tokens": places, "not_finite": bad},
            )
        if alike := drift.uniform(found.traces):
            return failed(
                name,
                f"{alike} of {len(PROMPTS)} prompts get the same tiny probability for every token "
                f"({found.way})",
                Condition.NOT_FINITE,
                measured={"tokens": places, "uniform": alike},
            )
        return passed(
            name,
            f"{places} tokens, all finite ({found.way})",
            measured={"tokens": places, "not_finite": 0},
        )

    async def logits(self, _: tuple[Check, ...]) -> Check:
        name, limit = "logit_drift", self._settings.logit_drift_tolerance
        compared = await self._against_baseline(name, Condition.LOGIT_DRIFT)
        if isinstance(compared, Check):
            return compared
        comparison, source, way = compared
        return self._judged(name, comparison, source, way, limit, Condition.LOGIT_DRIFT)

    async def overlap(self, _: tuple[Check, ...]) -> Check:
        name, limit = "top_k_overlap", self._settings.top_k_overlap_threshold
        compared = await self._against_baseline(name, Condition.LOGIT_DRIFT)
        if isinstance(compared, Check):
            return compared
        comparison, source, way = compared
        value = comparison.overlap
        if value is None:
            return skipped(name, f"no alternatives are listed beside the tokens ({way})")
        said = f"{value:.2f} of the top {self._settings.top_k} tokens are shared with {source}"
        if value < limit:
            return failed(
                name, said, Condition.LOGIT_DRIFT, threshold=limit, measured={"overlap": value}
            )
        return passed(name, said, threshold=limit, measured={"overlap": value})

    async def perplexity(self, _: tuple[Check, ...]) -> Check:
        name, limit = "perplexity_drift", self._settings.perplexity_drift_tolerance
        compared = await self._against_baseline(name, Condition.PERPLEXITY_DRIFT)
        if isinstance(compared, Check):
            return compared
        comparison, source, _way = compared
        value = comparison.perplexity_drift
        said = (
            f"perplexity {comparison.perplexity:.4g}, {source} {comparison.baseline_perplexity:.4g}"
        )
        numbers: Numbers = {
            "perplexity": comparison.perplexity,
            "baseline_perplexity": comparison.baseline_perplexity,
            "drift": value,
        }
        if value > limit:
            return failed(name, said, Condition.PERPLEXITY_DRIFT, threshold=limit, measured=numbers)
        return passed(name, said, threshold=limit, measured=numbers)

    def variant(self, degree: int, endpoint: Endpoint | None) -> Any:
        """The check against the same release at another tensor-parallel degree."""
        name = f"tp_{degree}"

        async def check(_: tuple[Check, ...]) -> Check:
            if endpoint is None:
                return skipped(name, f"no endpoint with TP {degree}: [service.tp.{degree}]")
            try:
                way = await self.measurements.way(endpoint)
                ours = await self.measurements.measure(self._candidate, way)
            except NoWay as reason:
                return self._unmeasured(name, str(reason))
            except ProbeError as error:
                return self._refused(name, self._candidate.role, error, Condition.LOGIT_DRIFT)
            try:
                theirs = await self.measurements.measure(endpoint, way)
            except ProbeError as error:
                return self._refused(name, endpoint.role, error, Condition.LOGIT_DRIFT)
            if bad := drift.not_finite(theirs.traces):
                return failed(
                    name,
                    f"{bad} tokens of {endpoint.role} have no finite log probability",
                    Condition.LOGIT_DRIFT,
                    Condition.NOT_FINITE,
                )
            return self._judged(
                name,
                drift.compare(ours.traces, theirs.traces),
                endpoint.role,
                way,
                self._settings.logit_drift_tolerance,
                Condition.LOGIT_DRIFT,
            )

        return check

    # -- how ------------------------------------------------------------------------------------

    def _judged(
        self,
        name: str,
        comparison: Comparison,
        source: str,
        way: Way,
        limit: float,
        condition: Condition,
    ) -> Check:
        numbers: Numbers = {
            "mean": comparison.mean,
            "largest": comparison.largest,
            "tokens": comparison.places,
            "diverged": sum(d.diverged is not None for d in comparison.drifts),
        }
        if not all(each.same_tokens for each in comparison.drifts):
            return failed(
                name,
                f"{source} splits the same text into other tokens: another tokenizer",
                condition,
                threshold=limit,
                measured=numbers,
            )
        if not comparison.places:
            return skipped(name, f"{source} gave no numbers to compare with ({way})")
        said = (
            f"the worst prompt differs by {comparison.mean:.4g} on average, at most by "
            f"{comparison.largest:.4g}, from {source} ({way}, {comparison.places} tokens)"
        )
        if not comparison.mean <= limit:
            return failed(name, said, condition, threshold=limit, measured=numbers)
        return passed(name, said, threshold=limit, measured=numbers)

    async def _against_baseline(
        self, name: str, condition: Condition
    ) -> tuple[Comparison, str, Way] | Check:
        if self._baseline is None and not self.reference:
            why = "no [service.baseline] is configured, and no approved release has numbers saved"
            return skipped(name, why)
        try:
            way = await self.measurements.way()
            ours = await self.measurements.measure(self._candidate, way)
        except NoWay as reason:
            return self._unmeasured(name, str(reason))
        except ProbeError as error:
            return self._refused(name, self._candidate.role, error, condition)
        if self._baseline is None:
            saved = self._saved(way)
            if isinstance(saved, str):
                return skipped(name, saved)
            assert self._approval is not None  # noqa: S101
            source = f"the saved numbers of release {self._approval.record.release}"
            return drift.compare(ours.traces, saved), source, way
        try:
            theirs = await self.measurements.measure(self._baseline, way)
        except ProbeError as error:
            return unanswered(name, self._baseline.role, error)
        if theirs.unfit:
            return failed(name, "the baseline itself is corrupt: nothing can be held against it")
        return drift.compare(ours.traces, theirs.traces), "the baseline", way

    def _saved(self, way: Way) -> list[Trace] | str:
        reference = self.reference
        if any(reference.get(key) != value for key, value in self.measurements.shape(way).items()):
            return (
                "the saved numbers were measured otherwise (prompts, way or top_k); run that "
                "release again and approve it"
            )
        try:
            return drift.from_json(reference["traces"])
        except (KeyError, TypeError, ValueError):
            return "the saved numbers cannot be read"

    def _unmeasured(self, name: str, reason: str) -> Check:
        return failed(name, reason) if self._settings.required else skipped(name, reason)

    def _refused(self, name: str, role: str, error: ProbeError, condition: Condition) -> Check:
        reply = error.reply if isinstance(error, BadStatus | NotJson) else None
        message = error.message if isinstance(error, BadStatus) else ""
        if (reply is not None and reply.corrupt) or _NOT_FINITE.search(message):
            return unanswered(name, role, error, condition)
        if isinstance(error, BadStatus) and declines(error):
            return self._unmeasured(name, f"{role} gives no log probabilities: {error}")
        return unanswered(name, role, error)
