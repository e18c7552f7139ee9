"""Verdicts -> state. The core is pure: time is told, nothing is awaited."""

from extproc.health.edetector import DetectorSettings, EDetector
from extproc.health.ledger import Change, HealthSettings, Ledger, Response
from extproc.health.severity import Severity, severity
from extproc.health.states import Signal, State

__all__ = [
    "Change",
    "DetectorSettings",
    "EDetector",
    "HealthSettings",
    "Ledger",
    "Response",
    "Severity",
    "Signal",
    "State",
    "severity",
]
