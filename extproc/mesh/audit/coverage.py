"""Is what runs in production tried as it runs: each quantization, up to the longest context?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from extproc.config import Settings
from extproc.mesh.audit.reach import Mesh


@dataclass(frozen=True, slots=True)
class Coverage:
    """``answer`` is None where it cannot be told; ``why`` then says what to give."""

    answer: bool | None
    why: str
    evidence: tuple[str, ...] = ()


def classes(settings: Settings) -> list[str]:
    """All context classes, the longest last."""
    return [*(entry.name for entry in settings.context_classes), settings.largest_class]


def cover(mesh: Mesh) -> Coverage:
    """Judges by the sidecar's settings, and by what the running sidecar has judged."""
    settings = mesh.world.settings
    if settings is None:
        return Coverage(
            None, "give --config extproc.yaml, and --sidecar URL of the running sidecar"
        )
    if not settings.units:
        return Coverage(
            False, "extproc.yaml names no unit, so no quantization is told from another"
        )
    live = {way.unit for way in mesh.inspected if not way.mirrored and way.unit}
    units = [unit for unit in settings.units if unit.id in live] or list(settings.units)
    lines = [f"unit {unit.id}: quantization {unit.quantization or 'not stated'}" for unit in units]
    unstated = [unit.id for unit in units if not unit.quantization]
    if unstated:
        why = f"quantization is not stated for {', '.join(unstated)}: write it into extproc.yaml"
        return Coverage(None, why, tuple(lines))
    if mesh.world.sidecar is None:
        why = "what was tried only the running sidecar knows: give --sidecar URL"
        return Coverage(None, why, tuple(lines))
    return _tried(settings, units, mesh.world.sidecar, lines)


def _tried(
    settings: Settings, units: list[Any], sidecar: Mapping[str, Any], lines: list[str]
) -> Coverage:
    longest = classes(settings)[-1]
    told = {entry.get("id"): entry for entry in sidecar.get("units", [])}
    covered: dict[str, bool] = {}
    for unit in units:
        entry = told.get(unit.id, {})
        seen = sorted(entry.get("classes", {}))
        judged = sum(
            entry.get("counts", {}).get(kind, 0) for kind in ("clean", "suspect", "corrupt")
        )
        lines.append(f"unit {unit.id}: {judged} answers judged, in {', '.join(seen) or 'no class'}")
        covered[unit.id] = longest in seen and judged > 0
    missing = [name for name, tried in covered.items() if not tried]
    if missing:
        why = f"no answer of class {longest} has been judged for {', '.join(missing)}"
        return Coverage(False, why, tuple(lines))
    return Coverage(True, f"each unit has been judged up to the class {longest}", tuple(lines))
