"""What a sidecar has at heart, without its servers."""

from __future__ import annotations

from extproc.health import Ledger
from extproc.processor import Services
from extproc.signals import Metrics
from extproc.units import Registry, Unit


def services(*units: Unit) -> Services:
    """Services over an empty book."""
    return Services(Registry(units), Ledger(units), Metrics())
