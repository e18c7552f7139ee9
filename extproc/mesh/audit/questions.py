"""The three questions of an audit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from extproc.mesh.audit.checks.probing import covers
from extproc.mesh.audit.checks.running import processing
from extproc.mesh.audit.coverage import cover
from extproc.mesh.audit.finding import Finding, Severity
from extproc.mesh.audit.reach import Mesh, Way
from extproc.mesh.audit.retry import Kind, retry_reach


class Answer(StrEnum):
    """What an audit can say to a question."""

    YES = "yes"
    NO = "no"
    CANNOT_TELL = "cannot-tell"


@dataclass(frozen=True, slots=True)
class Question:
    """A question, the answer, and what it rests on."""

    id: str
    question: str
    answer: Answer
    why: str
    evidence: tuple[str, ...]


BLIND = {
    *("filter-missing", "filter-not-attached", "filter-disabled", "body-not-sent"),
    *("response-headers-not-sent", "sidecar-cluster-missing", "sidecar-not-http2", "http-service"),
    *("sidecar-no-hosts", "no-answer-read", "sidecar-unreachable", "sidecar-tls", "forward-rules"),
    *("aggregate-member-filters", "buffered-without-headers", "filter-after-router"),
    *("sidecar-health-check", "sidecar-stream-duration"),
}
"""Checks whose finding means that answers are not read."""

UNRETRIED = {
    *("retry-missing", "retriable-headers", "num-retries", "marker-too-late", "hold-impossible"),
    *("mutation-rules", "marker-removed-too-early", "retry-priority-missing", "max-retries"),
    *("retry-priority-update-frequency", "retry-same-configuration", "weighted-without-refresh"),
    *("message-timeout-short", "request-buffer-limit", "retries-refused"),
}
"""Checks whose error means that a corrupt answer is not retried, or not elsewhere."""


def ask(mesh: Mesh, findings: Sequence[Finding]) -> tuple[Question, ...]:
    """The three answers."""
    return (coverage(mesh), detection(mesh, findings), failover(mesh, findings))


def coverage(mesh: Mesh) -> Question:
    """Whether what runs in production was ever tried as it runs."""
    text = "Do probes and canary cover the longest context and each quantization in production?"
    found = cover(mesh)
    answer = (
        Answer.CANNOT_TELL if found.answer is None else Answer.YES if found.answer else Answer.NO
    )
    return Question("coverage", text, answer, found.why, found.evidence)


def detection(mesh: Mesh, findings: Iterable[Finding]) -> Question:
    """Whether degenerate answers can be told from good ones."""
    text = 'Can the gateway tell "alive" from "degenerate"?'
    evidence = [
        _way(way)
        for way in mesh.ways
        if not way.mirrored and (way.guards or way.cluster.name in mesh.units)
    ]
    bad = [
        finding
        for finding in findings
        if finding.id in BLIND and finding.severity is Severity.ERROR
    ]
    lines = [*dict.fromkeys(evidence), *(f"{finding.id}: {finding.where}" for finding in bad)]
    started, seen = _streams(mesh)
    lines += seen

    def say(answer: Answer, why: str) -> Question:
        return Question("detection", text, answer, why, tuple(lines))

    if bad:
        return say(Answer.NO, "some answers of units are not read, or none: " + _ids(bad))
    if not mesh.guards:
        return say(
            Answer.CANNOT_TELL,
            "no HTTP route is in this configuration; audit the running Envoy's admin address",
        )
    if not mesh.inspected:
        why = "the filter is there, the routes that lead past it are not; audit the running Envoy"
        return say(Answer.CANNOT_TELL, why)
    if mesh.world.live is None:
        why = (
            "the filter stands on every way to a unit; whether traffic passes it, only the running "
            "Envoy tells: audit its admin address"
        )
        return say(Answer.YES, why)
    if not started:
        return say(
            Answer.CANNOT_TELL, "the filter is attached and has seen no traffic yet: send a request"
        )
    return say(Answer.YES, "the filter stands on every way to a unit, and traffic passes it")


def _way(way: Way) -> str:
    steps = [way.legs[0].manager.of, *(leg.target.cluster for leg in way.legs)]
    if way.legs[-1].target.cluster != way.cluster.name:
        steps.append(way.cluster.name)
    read = "read" if way.guards else "off" if way.off else "NOT read"
    observed = " (copies)" if way.guards and all(guard.observes for _, guard in way.guards) else ""
    return f"{' -> '.join(steps)}: {read}{observed}"


def _streams(mesh: Mesh) -> tuple[float, list[str]]:
    total, lines = 0.0, []
    for guard in mesh.guards:
        for name in ("streams_started", "failure_mode_allowed", "message_timeouts"):
            at, value = processing(mesh, guard, name)
            if value is not None:
                lines.append(f"{at.path} = {value:g}")
                total += value if name == "streams_started" else 0
    return total, list(dict.fromkeys(lines))


def failover(mesh: Mesh, findings: Iterable[Finding]) -> Question:
    """Whether a retry leaves the failure domain."""
    text = (
        "When a unit is bad, does a retry reach a different configuration (and not another host of "
        "the same one)?"
    )
    lines = []
    kinds = []
    for front in mesh.fronts:
        reach = retry_reach(front, mesh)
        kinds.append(reach.kind)
        lines.append(f"{front.route.of}, cluster {front.leg.target.cluster}: {reach.why}")
        cluster = front.cluster
        if cluster is not None:
            told = "moves new traffic" if covers(mesh, cluster) else "does not reach Envoy"
            lines.append(f"cluster {cluster.name}: a quarantine {told}")
    bad = [
        finding
        for finding in findings
        if finding.id in UNRETRIED and finding.severity is Severity.ERROR
    ]
    lines += [f"{finding.id}: {finding.where}" for finding in bad]
    lines = list(dict.fromkeys(lines))

    def say(answer: Answer, why: str) -> Question:
        return Question("failover", text, answer, why, tuple(lines))

    if not mesh.guards and mesh.world.managers:
        return say(Answer.NO, "nothing reads the answers, so a retry has no reason to happen")
    if mesh.guards and all(guard.observes for guard in mesh.guards):
        return say(
            Answer.NO, "the filter only watches: no answer is retried, only new requests move"
        )
    if bad:
        return say(Answer.NO, _ids(bad))
    if not mesh.fronts:
        return say(
            Answer.CANNOT_TELL,
            "no route above the filter is in this configuration; audit the running Envoy",
        )
    if Kind.UNKNOWN in kinds:
        return say(
            Answer.CANNOT_TELL, "not all hosts are in this configuration; audit the running Envoy"
        )
    if Kind.SAME in kinds:
        return say(Answer.NO, "a retry may reach the same configuration")
    return say(Answer.YES, "marked answers are retried, each time on another unit")


def _ids(findings: Sequence[Finding]) -> str:
    return ", ".join(dict.fromkeys(finding.id for finding in findings))
