"""What a gate is made of: checks that can be run one by one, and told apart by their inputs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from extproc.gates.outcome import Check


@dataclass(frozen=True, slots=True)
class Planned:
    """One check to be run. ``inputs``: JSON values that its result depends on, beside what all
    checks of its gate depend on. ``run`` gets the checks of this gate that are finished."""

    name: str
    run: Callable[[tuple[Check, ...]], Awaitable[Check]]
    inputs: Mapping[str, Any] = field(default_factory=dict)
    derived: bool = False
    """Made of the checks before it, at no cost: never taken from an earlier run."""


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate. ``inputs`` as in Planned, of all its checks. ``needs_server``: whether it is left
    out when gate 1 found that the server is not ready."""

    number: int
    name: str
    checks: tuple[Planned, ...]
    inputs: Mapping[str, Any] = field(default_factory=dict)
    needs_server: bool = True

    def fingerprint(self, planned: Planned) -> str:
        """Equal for equal inputs."""
        content = {"gate": self.name, "all": self.inputs, planned.name: planned.inputs}
        return digest(content)


def digest(content: Any) -> str:
    """A short name for JSON values."""
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
