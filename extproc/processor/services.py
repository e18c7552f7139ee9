"""What all streams of one sidecar share."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from extproc.detect import Catalogue, default_catalogue
from extproc.health import Change, Ledger, Response
from extproc.processor.hold import HoldPolicy
from extproc.signals import Metrics
from extproc.signals.sink import Sink
from extproc.units import ContextClasses, Registry
from extproc.wire import Limits, Router

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Services:
    """The rooms that a stream calls, put together by whoever starts the sidecar."""

    registry: Registry
    ledger: Ledger
    metrics: Metrics
    contexts: ContextClasses = field(default_factory=ContextClasses)
    router: Router = field(default_factory=Router)
    limits: Limits = field(default_factory=Limits)
    hold: HoldPolicy = field(default_factory=HoldPolicy)
    terminate: bool = False
    """Whether a stream that turns corrupt after its release is ended in band."""

    catalogue: Catalogue = field(default_factory=default_catalogue)
    catalogues: Mapping[str, Catalogue] = field(default_factory=dict)
    """Catalogues of units with a policy of their own."""

    clock: Callable[[], float] = time.time
    sinks: list[Sink] = field(default_factory=list)
    """Where records of corrupt verdicts and changes of state go."""

    def record(self, response: Response) -> None:
        """Takes a judged response into the book, and says what that changed."""
        self.metrics.response(response)
        self.announce(self.ledger.record(response))

    def announce(self, changes: list[Change]) -> None:
        """Counts and logs changes of state."""
        for change in changes:
            self.metrics.change(change)
            log.warning(
                "unit %s (%s) went from %s to %s: %s",
                change.unit,
                change.context,
                change.before,
                change.after,
                change.cause,
                extra={
                    "unit": change.unit,
                    "class": change.context,
                    "release": change.release,
                    "before": change.before.value,
                    "after": change.after.value,
                    "cause": change.cause,
                    "e_value": change.e_value,
                    "findings": change.findings,
                    "request_id": change.request_id,
                },
            )
