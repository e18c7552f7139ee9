"""The execution path: what the configuration says, what the start-up log and the server say, and
whether that is what was approved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from extproc.gates.conditions import Condition
from extproc.gates.outcome import Check, failed, passed, skipped
from extproc.gates.settings import Matrix
from extproc.gates.startup import Alarm, Scalar, StartupLog, normal
from extproc.gates.store import Approval, Record

NO_PATH = frozenset({"runtime_version"})
"""Fields that are expected to change with every release; they are recorded and shown."""


@dataclass(frozen=True, slots=True)
class ExecutionPath:
    """``declared`` by the matrix, ``observed`` in the log and from the server."""

    declared: Mapping[str, Scalar] = field(default_factory=dict)
    observed: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def fields(self) -> dict[str, Scalar]:
        """Each field once: what was observed, or else what was declared."""
        return dict(sorted({**self.declared, **self.observed}.items()))


def execution_path(
    matrix: Matrix, log: StartupLog | None, server: Mapping[str, Scalar]
) -> ExecutionPath:
    """The path of a release. ``server``: fields that the running server itself gives."""
    return ExecutionPath(
        {name: normal(name, value) for name, value in matrix.declared().items()},
        {
            **{name: normal(name, value) for name, value in server.items()},
            **(log.facts if log is not None else {}),
        },
    )


def contradictions(path: ExecutionPath) -> list[str]:
    """Where the engine did not take the path that the configuration says."""
    return [
        f"{name} is {_word(path.observed[name])}, not {_word(value)} as [matrix] says"
        for name, value in sorted(path.declared.items())
        if name in path.observed and path.observed[name] != value and name not in NO_PATH
    ]


def changes(now: Mapping[str, Scalar], approved: Mapping[str, Scalar]) -> list[str]:
    """What differs from an approved path. A field that only one side knows is no change: logs
    differ in what they tell."""
    return [
        f"{name} was {_word(approved[name])}, is {_word(now[name])}"
        for name in sorted(set(now) & set(approved) - NO_PATH)
        if now[name] != approved[name]
    ]


def path_check(path: ExecutionPath, approval: Approval | None, last: Record | None = None) -> Check:
    """Whether the path is the approved one; where nothing is approved yet, that of ``last``, the
    last release of the model whose path passed: the first one is taken as it is."""
    name = "dtype_path"
    count = len(path.fields)
    if not count:
        return skipped(
            name, "nothing tells the execution path: fill [matrix], or give the start-up log"
        )
    known = approval.record if approval is not None else last
    different = changes(path.fields, known.path) if known is not None else []
    contradicted = contradictions(path)
    if approval is not None and not changes(path.observed, approval.record.path):
        contradicted = []  # what the engine really does is what was approved
    problems = [*different, *contradicted]
    if problems:
        of = "approved" if approval is not None else "last"
        against = f" ({of}: release {known.release})" if known is not None and different else ""
        return failed(
            name,
            "; ".join(problems) + against,
            Condition.PATH,
            measured={"fields": count, "differences": len(problems)},
        )
    if approval is not None:
        said = f", as release {approval.record.release} that {approval.by} approved on "
        said += approval.at[:10]
    elif last is not None:
        said = f", as release {last.release} before it; none is approved yet"
    else:
        said = " recorded; the first of its model, so there is nothing to compare them with"
    return passed(name, f"{count} fields{said}", measured={"fields": count})


def fallback_check(log: StartupLog | None, approval: Approval | None, source: str) -> Check:
    """Whether every replaced kernel is one that an approved release has too."""
    name = "startup_log"
    if log is None:
        return skipped(name, "no start-up log was given: --startup-log FILE, or - for stdin")
    if not log.lines:
        return failed(name, f"{source} is empty: it cannot show that nothing was replaced")
    explained = set(approval.record.alarms) if approval is not None else set()
    open_ = [alarm for alarm in log.alarms if alarm.key not in explained]
    if open_:
        return failed(
            name,
            "; ".join(_alarm(alarm) for alarm in open_[:5])
            + (f"; and {len(open_) - 5} more" if len(open_) > 5 else ""),
            Condition.FALLBACK,
            measured={"lines": log.lines, "fallbacks": len(log.alarms), "unexplained": len(open_)},
        )
    known = f", {len(log.alarms)} fallbacks that are approved" if log.alarms else ""
    return passed(
        name,
        f"{log.lines} lines, no unrecognised operator, no unexplained fallback{known}",
        measured={"lines": log.lines, "fallbacks": len(log.alarms), "unexplained": 0},
    )


def _alarm(alarm: Alarm) -> str:
    text = alarm.text if len(alarm.text) <= 160 else alarm.text[:157] + "..."
    return f"{alarm.kind}, line {alarm.line}: {text}"


def _word(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
