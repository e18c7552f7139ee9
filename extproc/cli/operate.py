"""``semantic-extproc quarantine`` and ``release``: an operator's word."""

from __future__ import annotations

from typing import Any

import typer

from extproc.cli.admin import Admin, Api, Refused, Unreachable, leave, operator, unit_ids

Unit: Any = typer.Argument(..., metavar="UNIT", autocompletion=unit_ids, help="Id of the unit.")
Reason: Any = typer.Option(..., "--reason", "-r", help="Why; it is kept for the record.")


def quarantine(unit: str = Unit, reason: str = Reason, admin: str = Admin) -> None:
    """Hold a unit out of traffic until it is released, whatever its answers say.

    Exit codes: 0 done, 1 the sidecar refused, 2 no sidecar answers.
    """
    _say(admin, unit, "quarantine", reason)


def release(unit: str = Unit, reason: str = Reason, admin: str = Admin) -> None:
    """Let a unit back in: evidence against it is dropped, and it starts again under observation.

    Exit codes: 0 done, 1 the sidecar refused, 2 no sidecar answers.
    """
    _say(admin, unit, "release", reason)


def _say(admin: str, unit: str, word: str, reason: str) -> None:
    api = Api(admin)
    try:
        before = api.get(api.unit(unit))
        after = api.post(api.unit(unit, word), {"reason": reason, "by": operator()})
    except (Unreachable, Refused) as problem:
        leave(problem)
    for line in changes(before, after):
        typer.echo(line)


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What differs between two descriptions of a unit, for people."""
    unit = after["id"]
    lines = []
    if before["state"] != after["state"]:
        lines.append(f"{unit}: {before['state']} -> {after['state']}")
    else:
        lines.append(f"{unit}: stays in {after['state']}")
    if before["held_by_operator"] != after["held_by_operator"]:
        held = after["held_by_operator"]
        lines.append(f"  held by operator: {held}" if held else "  no longer held by operator")
    for name, entry in after["classes"].items():
        was = before["classes"].get(name, entry)
        if was["state"] != entry["state"]:
            lines.append(f"  class {name}: {was['state']} -> {entry['state']}")
    if after["mode"] == "hard":
        lines.append("  Envoy drops it; a verified fallback takes its traffic")
    elif after["mode"] == "soft":
        lines.append("  no verified fallback is well: Envoy uses it when nothing else is left")
    if after.get("durable") is False:
        lines.append("  the store could not keep it: a restart would forget it")
    return lines
