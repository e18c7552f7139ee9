"""Our records as the messages of ``protos/semantic/v1``, which others consume.

The classes under ``semantic`` are made by ``make protos``.
"""

from extproc.contract.convert import (
    evidence_from_message,
    evidence_message,
    unit_state_from_message,
    unit_state_message,
    verdict_from_message,
    verdict_message,
)
from extproc.contract.semantic.v1.evidence_pb2 import Evidence as EvidenceMessage
from extproc.contract.semantic.v1.unit_state_pb2 import UnitState as UnitStateMessage
from extproc.contract.semantic.v1.verdict_pb2 import Verdict as VerdictMessage

__all__ = [
    "EvidenceMessage",
    "UnitStateMessage",
    "VerdictMessage",
    "evidence_from_message",
    "evidence_message",
    "unit_state_from_message",
    "unit_state_message",
    "verdict_from_message",
    "verdict_message",
]
