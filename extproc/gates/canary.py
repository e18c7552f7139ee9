"""Gate 5: what the running sidecar measured on real traffic, candidate beside baseline.

Rules:
- Success is a `clean` verdict. A drop fails when it is larger than the threshold *and* the exact
  test says that chance does not explain it; it passes when it is not, and the sample was large
  enough to have shown such a drop (power 0.8). Anything else is undecided.
- Where traffic is mirrored, both answers to one request are compared (McNemar); else the two
  samples are (Fisher).
- Degeneration is a `corrupt` verdict. Its rate fails when it is above the limit and above the
  baseline's, both beyond chance. What the baseline does as well is not this release's doing.
- The tests are made for one look at a sample that is large enough. Whoever looks again and again
  until something shows will see something; the sidecar's own sequential test is made for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from extproc.gates import statistics
from extproc.gates.conditions import Condition
from extproc.gates.outcome import Check, Measured, failed, passed, skipped, undecided
from extproc.gates.plan import Gate, Planned
from extproc.gates.settings import ShadowCanary, SidecarAccess
from extproc.probes import BadStatus, Client, ProbeError

MIRRORED = 0.5
"""Share of the candidate's responses that must be halves of pairs for the traffic to count as
mirrored."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Judged responses of one release of one unit."""

    unit: str
    release: str
    clean: int
    suspect: int
    corrupt: int

    @property
    def total(self) -> int:
        return self.clean + self.suspect + self.corrupt

    @property
    def failures(self) -> int:
        """Responses that are no success."""
        return self.suspect + self.corrupt


@dataclass(frozen=True, slots=True)
class Pairs:
    """Requests that both answered: how many only one of them failed at."""

    total: int = 0
    only_candidate: int = 0
    only_baseline: int = 0


@dataclass(frozen=True, slots=True)
class Observed:
    """What the sidecar has."""

    candidate: Sample
    baseline: Sample
    pairs: Pairs = Pairs()

    @property
    def mirrored(self) -> bool:
        """Whether the pairs are most of what the candidate answered."""
        return self.pairs.total > 0 and self.pairs.total >= MIRRORED * self.candidate.total


def canary_gate(
    settings: ShadowCanary, access: SidecarAccess | None, client: Client | None
) -> Gate:
    """The gate. ``client``: of the admin API; None where no units are configured."""
    gate = _Canary(settings, access, client)
    return Gate(
        5,
        "gate_5_shadow_canary",
        # What was seen of traffic changes by itself: never taken from an earlier run.
        (
            Planned("task_success", gate.success, derived=True),
            Planned("degeneration", gate.degeneration, derived=True),
        ),
        needs_server=False,
    )


class _Canary:
    def __init__(
        self, settings: ShadowCanary, access: SidecarAccess | None, client: Client | None
    ) -> None:
        self._settings = settings
        self._access = access
        self._client = client
        self._observed: Observed | Check | None = None

    async def success(self, _: tuple[Check, ...]) -> Check:
        observed = await self._look("task_success")
        return observed if isinstance(observed, Check) else success(observed, self._settings)

    async def degeneration(self, _: tuple[Check, ...]) -> Check:
        observed = await self._look("degeneration")
        return observed if isinstance(observed, Check) else degeneration(observed, self._settings)

    async def _look(self, name: str) -> Observed | Check:
        access, client = self._access, self._client
        if access is None or client is None or not access.candidate_unit:
            return skipped(name, "no [sidecar] with candidate_unit and baseline_unit is configured")
        if self._observed is None:
            try:
                self._observed = await observe(client, access)
            except BadStatus as error:
                return failed(name, f"the sidecar refused: {error}", answered=error.status < 500)
            except ProbeError as error:
                return failed(name, f"no sidecar answers: {error}", answered=False)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                return failed(name, f"{access.admin_url} is no sidecar's admin API: {error}")
        return self._observed


async def observe(client: Client, access: SidecarAccess) -> Observed:
    """Asks the sidecar. Raises ProbeError, or KeyError, TypeError or ValueError for an answer of
    another shape."""
    candidate = await _sample(client, access.candidate_unit, access.candidate_release, "")
    same = access.baseline_unit == access.candidate_unit
    baseline = await _sample(
        client, access.baseline_unit, access.baseline_release, candidate.release if same else ""
    )
    return Observed(candidate, baseline, await _pairs(client, candidate, baseline))


async def _sample(client: Client, unit: str, release: str, but: str) -> Sample:
    """One release of a unit: the one named, or the latest (but ``but``: a canary of a unit is held
    against the release before it)."""
    content = await client.get_json(f"/api/units/{quote(unit, safe='')}")
    releases: Mapping[str, Any] = content["releases"]
    if not release:
        met = [name for name in releases if name != but]
        release = content["release"] if content["release"] in met else (met[-1] if met else "")
    counts = releases.get(release, {})
    return Sample(
        unit,
        release,
        int(counts.get("clean", 0)),
        int(counts.get("suspect", 0)),
        int(counts.get("corrupt", 0)),
    )


async def _pairs(client: Client, candidate: Sample, baseline: Sample) -> Pairs:
    try:
        content = await client.get_json("/api/pairs")
    except BadStatus:
        return Pairs()  # a sidecar from before pairs were counted
    for entry in content["pairs"]:
        first, second = entry["first"], entry["second"]
        one = (first["unit"], first["release"])
        two = (second["unit"], second["release"])
        ours, theirs = (candidate.unit, candidate.release), (baseline.unit, baseline.release)
        if (one, two) not in ((ours, theirs), (theirs, ours)):
            continue
        total = only_first = only_second = 0
        for outcome in entry["outcomes"]:
            number = int(outcome["count"])
            well = (outcome["first"] == "clean", outcome["second"] == "clean")
            total += number
            only_first += number if well == (False, True) else 0
            only_second += number if well == (True, False) else 0
        if one == ours:
            return Pairs(total, only_first, only_second)
        return Pairs(total, only_second, only_first)
    return Pairs()


@dataclass(frozen=True, slots=True)
class _Compared:
    """What an exact test says of the drop in success. ``missing``: what the sample lacks to have
    shown one, "" for nothing."""

    test: str
    drop: float
    p: float
    said: str
    missing: str
    counts: Measured


def success(observed: Observed, settings: ShadowCanary) -> Check:
    """Whether the candidate succeeds as often as the baseline."""
    name, limit = "task_success", settings.task_success_drop_threshold
    if not observed.mirrored and not (observed.candidate.total and observed.baseline.total):
        return undecided(name, _nothing(observed), limit)
    found = (_pairwise if observed.mirrored else _two_samples)(observed, settings)
    said = found.said
    numbers = {"test": found.test, "drop": found.drop, "p_value": found.p, **found.counts}
    if found.drop > limit and found.p <= settings.significance:
        return failed(name, said, Condition.SUCCESS, threshold=limit, measured=numbers)
    if found.missing:
        why = f"the sample is too small: {found.missing}; {said}"
        return undecided(name, why, limit, measured=numbers)
    if found.drop > limit:
        return undecided(name, f"chance may explain the drop; {said}", limit, measured=numbers)
    return passed(name, said, limit, measured=numbers)


def _two_samples(observed: Observed, settings: ShadowCanary) -> _Compared:
    limit, alpha = settings.task_success_drop_threshold, settings.significance
    ours, theirs = observed.candidate, observed.baseline
    base_rate = theirs.failures / theirs.total
    rate = ours.failures / ours.total
    p = statistics.fisher_worse(ours.failures, ours.total, theirs.failures, theirs.total)
    needed = statistics.needed_to_compare(base_rate, limit, alpha)
    missing = [
        f"{needed - sample.total} more of {sample.unit} {sample.release}".rstrip()
        for sample in (ours, theirs)
        if sample.total < needed
    ]
    return _Compared(
        "fisher",
        rate - base_rate,
        p,
        f"success {_percent(1 - rate)} of {ours.total}, baseline {_percent(1 - base_rate)} of "
        f"{theirs.total} (Fisher's exact test, p = {p:.2g})",
        " and ".join(missing),
        {
            "candidate": ours.total,
            "baseline": theirs.total,
            "needed": needed,
            "share": ours.total / (ours.total + theirs.total),
            "meant_share": settings.traffic_ratio,
        },
    )


def _pairwise(observed: Observed, settings: ShadowCanary) -> _Compared:
    limit, alpha = settings.task_success_drop_threshold, settings.significance
    pairs = observed.pairs
    worse, better = pairs.only_candidate, pairs.only_baseline
    p = statistics.mcnemar_worse(worse, better)
    needed = statistics.needed_pairs((worse + better) / pairs.total, limit, alpha)
    return _Compared(
        "mcnemar",
        (worse - better) / pairs.total,
        p,
        f"of {pairs.total} mirrored requests {worse} failed on the candidate alone, {better} on "
        f"the baseline alone (McNemar's exact test, p = {p:.2g})",
        f"{needed - pairs.total} more pairs" if pairs.total < needed else "",
        {
            "pairs": pairs.total,
            "only_candidate": worse,
            "only_baseline": better,
            "needed": needed,
        },
    )


def degeneration(observed: Observed, settings: ShadowCanary) -> Check:
    """Whether corrupt answers are rarer than the limit, or no rarer on the baseline."""
    name, limit, alpha = (
        "degeneration",
        settings.degeneration_rate_threshold,
        settings.significance,
    )
    ours, theirs = observed.candidate, observed.baseline
    if not ours.total:
        return undecided(name, _nothing(observed), limit)
    rate = ours.corrupt / ours.total
    over = statistics.binomial_tail(ours.corrupt, ours.total, limit)
    worse = statistics.fisher_worse(ours.corrupt, ours.total, theirs.corrupt, theirs.total)
    base_over = statistics.binomial_tail(theirs.corrupt, theirs.total, limit)
    needed = statistics.needed_to_exclude(limit, alpha, ours.corrupt)
    said = (
        f"{ours.corrupt} of {ours.total} corrupt ({_percent(rate)}), baseline {theirs.corrupt} of "
        f"{theirs.total}; limit {_percent(limit)}"
    )
    numbers: Measured = {
        "rate": rate,
        "corrupt": ours.corrupt,
        "candidate": ours.total,
        "baseline_corrupt": theirs.corrupt,
        "baseline": theirs.total,
        "p_over_limit": over,
        "p_worse": worse,
        "needed": needed,
    }
    if ours.corrupt and over <= alpha:
        if worse <= alpha:
            return failed(name, said, Condition.DEGENERATION, threshold=limit, measured=numbers)
        if theirs.corrupt and base_over <= alpha:
            return passed(name, f"{said}: not this release's doing", limit, measured=numbers)
        return undecided(
            name, f"above the limit, but the baseline is too small to compare; {said}", limit,
            measured=numbers,
        )  # fmt: skip
    if limit > 0 and ours.total < needed:
        return undecided(
            name,
            f"the sample is too small: {needed - ours.total} more of {ours.unit}; {said}",
            limit,
            measured=numbers,
        )
    return passed(name, said, limit, measured=numbers)


def _nothing(observed: Observed) -> str:
    empty = [s.unit for s in (observed.candidate, observed.baseline) if not s.total]
    return f"no response of {' or '.join(empty)} was judged yet"


def _percent(rate: float) -> str:
    return f"{100 * rate:.4g} %"
