"""Records to messages and back.

Texts pass through UTF-8: a lone surrogate, which Python's strings may hold and protobuf's may not,
becomes "?". Numbers of a message are kept; words that are none of ours raise ValueError.
"""

from __future__ import annotations

from extproc.contract.semantic.v1 import evidence_pb2, unit_state_pb2, verdict_pb2
from extproc.detect import Finding, Kind, Verdict, Weight
from extproc.health.evidence import Evidence, Subject
from extproc.health.shared import SharedState
from extproc.health.states import State


def _text(value: str) -> str:
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def _finding_message(finding: Finding) -> verdict_pb2.Finding:
    return verdict_pb2.Finding(
        detector=_text(finding.detector),
        reason=_text(finding.reason),
        value=finding.value,
        threshold=finding.threshold,
        weight=finding.weight.value,
        shape=_text(finding.shape),
    )


def _finding(message: verdict_pb2.Finding) -> Finding:
    return Finding(
        message.detector,
        message.reason,
        message.value,
        message.threshold,
        Weight(message.weight),
        message.shape,
    )


def verdict_message(verdict: Verdict) -> verdict_pb2.Verdict:
    """``semantic.v1.Verdict`` of a verdict."""
    return verdict_pb2.Verdict(
        kind=verdict.kind.value,
        findings=[_finding_message(finding) for finding in verdict.findings],
        first_token=verdict.first_token,
    )


def verdict_from_message(message: verdict_pb2.Verdict) -> Verdict:
    """The verdict of a message. Raises ValueError."""
    return Verdict(
        Kind(message.kind),
        tuple(_finding(finding) for finding in message.findings),
        message.first_token if message.HasField("first_token") else None,
    )


def evidence_message(evidence: Evidence) -> evidence_pb2.Evidence:
    """``semantic.v1.Evidence`` of a record."""
    return evidence_pb2.Evidence(
        id=_text(evidence.id),
        subject=evidence.subject.value,
        at=evidence.at,
        unit=_text(evidence.unit),
        release=_text(evidence.release),
        context=_text(evidence.context),
        host=_text(evidence.host),
        verdict=evidence.verdict.value,
        findings=[_finding_message(finding) for finding in evidence.findings],
        request_id=_text(evidence.request_id),
        traceparent=_text(evidence.traceparent),
        attempt=evidence.attempt,
        before=evidence.before.value if evidence.before is not None else None,
        after=evidence.after.value if evidence.after is not None else None,
        cause=_text(evidence.cause),
        e_value=evidence.e_value,
        sample=_text(evidence.sample),
        sample_until=evidence.sample_until,
        text_hash=_text(evidence.text_hash),
    )


def evidence_from_message(message: evidence_pb2.Evidence) -> Evidence:
    """The record of a message. Raises ValueError."""
    return Evidence(
        id=message.id,
        subject=Subject(message.subject),
        at=message.at,
        unit=message.unit,
        release=message.release,
        context=message.context,
        host=message.host,
        verdict=Kind(message.verdict),
        findings=tuple(_finding(finding) for finding in message.findings),
        request_id=message.request_id,
        traceparent=message.traceparent,
        attempt=message.attempt,
        before=State(message.before) if message.HasField("before") else None,
        after=State(message.after) if message.HasField("after") else None,
        cause=message.cause,
        e_value=message.e_value,
        sample=message.sample,
        sample_until=message.sample_until,
        text_hash=message.text_hash,
    )


def unit_state_message(state: SharedState) -> unit_state_pb2.UnitState:
    """``semantic.v1.UnitState`` of a state."""
    return unit_state_pb2.UnitState(
        unit=_text(state.unit),
        context=_text(state.context),
        state=state.state.value,
        epoch=state.epoch,
        release=_text(state.release),
        cause=_text(state.cause),
        by=_text(state.by),
        at=state.at,
    )


def unit_state_from_message(message: unit_state_pb2.UnitState) -> SharedState:
    """The state of a message. Raises ValueError."""
    return SharedState(
        message.unit,
        message.context,
        State(message.state),
        message.epoch,
        message.release,
        message.cause,
        message.by,
        message.at,
    )
