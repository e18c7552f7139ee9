"""Where records go: everything that wants to hear of corrupt verdicts and changes of state."""

from __future__ import annotations

from typing import Protocol

from extproc.health.evidence import Evidence


class Sink(Protocol):
    """Takes every record, on the event loop. It never blocks, never awaits and never raises."""

    def evidence(self, record: Evidence) -> None:
        """Takes one record; what cannot be kept up with is dropped and counted."""
