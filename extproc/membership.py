"""This sidecar as a member of its fleet: what it tells, what it takes over, what it tells people.

People are told of a change once, by the sidecar whose telling was the first. So what concerns the
fleet waits for the exchange that is about to come, some hundredths of a second; while the fleet
cannot be reached nothing waits, and each sidecar speaks for itself.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from extproc.health import Change, Evidence, Subject
from extproc.health.agreement import Agreement
from extproc.health.definitions import Gateway
from extproc.health.shared import Key, Telling
from extproc.processor import Services

log = logging.getLogger(__name__)

ADOPTED = "fleet: "
"""What the cause of a change begins with that another sidecar came to."""


class Membership:
    """Between ``agreement`` and all that ``services`` reach."""

    def __init__(self, agreement: Agreement, services: Services) -> None:
        self._agreement = agreement
        self._services = services
        self._waiting: deque[Evidence] = deque()
        self._in_exchange = 0
        self.reached: Callable[[], bool] = lambda: True

    @property
    def gateway(self) -> Gateway:
        """What this sidecar means by the units' names."""
        return self._agreement.gateway

    @property
    def waiting(self) -> bool:
        """Whether people are still to be told something."""
        return bool(self._waiting)

    def shared(self) -> Mapping[Key, Telling]:
        """What this sidecar tells. What waits by now is settled by this exchange."""
        self._in_exchange = len(self._waiting)
        return self._agreement.shared()

    def adopt(self, told: Sequence[Telling]) -> int:
        """Takes over what supersedes own tellings. The number of changes."""
        changes: list[Change] = self._agreement.adopt(told, self._services.clock())
        # The first word of a cause is a label; the rest is somebody's words from elsewhere.
        self._services.announce([c._replace(cause=ADOPTED + c.cause) for c in changes])
        return len(changes)

    def meet(self, gateways: Sequence[Gateway]) -> None:
        """Takes what the others mean by the units' names, and says where that differs."""
        before = self._agreement.disputes
        if not self._agreement.meet(gateways):
            return
        now = self._agreement.disputes
        for unit in before.keys() - now.keys():
            log.warning("unit %s is defined alike by the whole fleet again", unit)
        for unit, dispute in now.items():
            if dispute != before.get(unit):
                log.error(
                    "unit %s is not the same thing on all sidecars of the fleet: %s. %s",
                    unit,
                    dispute.differences,
                    "Most mean another one: what is found here of it stays here, and theirs is not "
                    "taken over, until the configurations agree"
                    if dispute.apart
                    else "The states of this sidecar are the fleet's",
                )
        self._services.metrics.keeping.definitions(
            {unit: dispute.apart for unit, dispute in now.items()}
        )

    def exchanged(self, ok: bool) -> None:
        """Tells people what stands as this sidecar's own."""
        for _ in range(self._in_exchange):
            record = self._waiting.popleft()
            if not ok or self._agreement.told_here(record):
                self._services.tell(record)
        self._in_exchange = 0

    def keeps_back(self, record: Evidence) -> bool:
        """Whether people are told of ``record`` later, or by another sidecar."""
        if record.cause.startswith(ADOPTED):
            return True
        if record.subject is Subject.VERDICT or not self.reached():
            return False
        if not self._agreement.told_here(record):
            return False
        self._waiting.append(record)
        return True

    @property
    def trouble(self) -> str:
        """Units that are defined differently elsewhere, "" if none is."""
        return "; ".join(
            f"unit {dispute.unit} is defined differently elsewhere ({dispute.differences})"
            for dispute in self._agreement.disputes.values()
        )
