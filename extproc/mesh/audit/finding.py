"""What an audit says: checks, and what they found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from extproc.mesh.audit.node import Node

if TYPE_CHECKING:
    from extproc.mesh.audit.reach import Mesh


class Severity(StrEnum):
    """How bad it is. ``error``: protection fails, or clients are harmed, and nothing says so.
    ``warning``: it does under some load, fault or traffic. ``info``: worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Hit:
    """One place where a check fails. ``said``: the values there, as a clause. ``severity`` and
    ``fix``: where they are not those of the check."""

    at: Node
    of: str = ""
    """What the place belongs to, such as ``cluster llm``."""

    said: str = ""
    fix: str = ""
    severity: Severity | None = None


Function = Callable[["Mesh"], Iterator[Hit]]


@dataclass(frozen=True, slots=True)
class Check:
    """One entry of the catalogue. ``why``: what happens, as measured. ``fix``: the lines to put."""

    id: str
    severity: Severity
    title: str
    why: str
    fix: str
    function: Function
    theme: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One failed check at one place."""

    check: Check
    severity: Severity
    where: str
    """The path in the configuration, and what it belongs to."""

    said: str
    """What stands there, as a clause; "" where the place says it all."""

    fix: str
    path: str = ""
    """The path alone."""

    place: tuple[str, int | None] | None = None
    """The file and the line, where the configuration came in files."""

    @property
    def id(self) -> str:
        return self.check.id

    @property
    def why(self) -> str:
        """What stands there, and what happens then."""
        return f"{self.said}. {self.check.why}" if self.said else self.check.why


class Theme:
    """The checks of one file, in the order of their definition."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.checks: list[Check] = []

    def check(
        self, id: str, severity: Severity, title: str, why: str, fix: str
    ) -> Callable[[Function], Function]:
        """Enters the decorated function into the catalogue."""

        def enter(function: Function) -> Function:
            self.checks.append(
                Check(
                    id, severity, title, " ".join(why.split()), fix.strip("\n"), function, self.name
                )
            )
            return function

        return enter


def run(check: Check, mesh: Mesh) -> Iterator[Finding]:
    """The findings of one check, each place once."""
    seen = set()
    for hit in check.function(mesh):
        where = f"{hit.at.path} ({hit.of})" if hit.of else hit.at.path
        if (where, hit.said) in seen:
            continue
        seen.add((where, hit.said))
        severity, fix = hit.severity or check.severity, hit.fix or check.fix
        yield Finding(check, severity, where, hit.said, fix, hit.at.path)
