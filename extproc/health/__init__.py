"""Verdicts -> state. The core is pure: time is told, nothing is awaited."""

from extproc.health.evidence import Evidence, Ids, Limiter, Subject
from extproc.health.ledger import Ledger
from extproc.health.report import ALL, Change, HealthSettings, Probes, Response
from extproc.health.severity import Severity, severity, standby
from extproc.health.states import State

__all__ = [
    "ALL",
    "Change",
    "Evidence",
    "HealthSettings",
    "Ids",
    "Ledger",
    "Limiter",
    "Probes",
    "Response",
    "Severity",
    "State",
    "Subject",
    "severity",
    "standby",
]
