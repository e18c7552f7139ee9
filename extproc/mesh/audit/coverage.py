"""Is what runs in production tried as it runs: each quantization, up to the longest context?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from extproc.config import Settings
from extproc.config.model import UnitModel
from extproc.mesh.audit.reach import Mesh

TRIED = frozenset({"passed", "failed"})
"""Outcomes of a probe that say something of the engine."""

JUDGED = ("clean", "suspect", "corrupt")


@dataclass(frozen=True, slots=True)
class Coverage:
    """``answer`` is None where it cannot be told; ``why`` then says what to give."""

    answer: bool | None
    why: str
    evidence: tuple[str, ...] = ()


def cover(mesh: Mesh) -> Coverage:
    """Judges by the sidecar's settings, and by what the running sidecar has tried and judged."""
    settings = mesh.world.settings
    if settings is None:
        return Coverage(None, "give --config extproc.yaml, and --sidecar URL of the running one")
    if not settings.units:
        return Coverage(False, "extproc.yaml names no unit: no quantization is told from another")
    serving = {way.unit for way in mesh.inspected if not way.mirrored and way.unit}
    units = [unit for unit in settings.units if unit.id in serving] or list(settings.units)
    longest = settings.largest_class
    lines = [_planned(unit) for unit in units]
    problems = [f"{unit.id}: quantization is not stated" for unit in units if not unit.quantization]
    sidecar = mesh.world.sidecar
    if sidecar is None:
        return _by_plan(settings, units, problems, lines)
    told = {str(entry.get("id")): entry for entry in sidecar.get("units", [])}
    for unit in units:
        entry = told.get(unit.id, {})
        lines += _seen(unit.id, entry)
        if not _tried(entry, longest):
            problems.append(f"{unit.id} ({unit.quantization or '?'}): nothing of class {longest}")
    if problems:
        return Coverage(False, "; ".join(problems), tuple(lines))
    why = f"each unit in production was probed, or its answers judged, in class {longest}"
    return Coverage(True, why, tuple(lines))


def _planned(unit: UnitModel) -> str:
    probe = unit.probe
    if probe is None:
        how = "not probed"
    else:
        how = f"probed ({', '.join(probe.kinds) if probe.kinds else 'all kinds'})"
    return f"unit {unit.id}: quantization {unit.quantization or 'not stated'}, {how}"


def _by_plan(
    settings: Settings, units: Sequence[UnitModel], problems: list[str], lines: list[str]
) -> Coverage:
    """Probes are padded into each context class, whatever their kind; ``long`` fills a context."""
    for unit in units:
        if unit.probe is None:
            problems.append(f"{unit.id} ({unit.quantization or '?'}): no probe is configured")
        elif unit.probe.kinds and "long" not in unit.probe.kinds:
            problems.append(f"{unit.id}: its probes leave out the kind long")
    lines.append(f"a long context is filled to {settings.probes.long_tokens} tokens")
    if problems:
        why = f"{'; '.join(problems)}. Whether traffic has covered it, --sidecar URL tells"
        return Coverage(False, why, tuple(lines))
    why = "probes of every unit and class are configured; how they came out, --sidecar URL tells"
    return Coverage(True, why, tuple(lines))


def _tried(entry: Mapping[str, Any], longest: str) -> bool:
    """Whether the present release was probed in the longest class, or answered and was judged."""
    if any(result["class"] == longest and result["outcome"] in TRIED for result in _current(entry)):
        return True
    judged = sum(entry.get("counts", {}).get(kind, 0) for kind in JUDGED)
    return longest in entry.get("classes", {}) and judged > 0


def _current(entry: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    probed = entry.get("probed") or {}
    return (result for result in probed.get("results", []) if result.get("current"))


def _seen(name: str, entry: Mapping[str, Any]) -> Iterator[str]:
    judged = sum(entry.get("counts", {}).get(kind, 0) for kind in JUDGED)
    classes = ", ".join(sorted(entry.get("classes", {}))) or "no class"
    yield f"unit {name}: {judged} answers judged, in {classes}"
    outcomes: dict[tuple[str, str], list[str]] = {}
    for result in _current(entry):
        outcomes.setdefault((result["class"], result["outcome"]), []).append(result["kind"])
    for (context, outcome), kinds in outcomes.items():
        yield f"unit {name}: probes of class {context} {outcome}: {', '.join(kinds)}"
