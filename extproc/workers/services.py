"""The services of a worker: those of a sidecar whose book is kept elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field

from extproc.detect import Kind
from extproc.health import Response, State
from extproc.processor import Services
from extproc.workers.frames import Began, Judged
from extproc.workers.link import Link


@dataclass(slots=True)
class WorkerServices(Services):
    """``ledger`` stays empty: who wants a state asks the link, which is told by the authority."""

    link: Link = field(kw_only=True)
    quotes: bool = field(kw_only=True, default=False)
    """Whether anything may be kept of the text that was judged."""

    def state(self, unit: str, context: str) -> State:
        """The state of a unit in one context class, as it was told last."""
        return self.link.states.state(unit, context)

    def record(self, response: Response, judged: str = "") -> None:
        """Sends a judged response to the authority; text only of as many as are kept."""
        corrupt = response.kind is Kind.CORRUPT
        quoted = self.quotes and corrupt and self.limiter.allows(response.unit, response.at)
        self.link.send(Judged(response, judged if quoted else ""))

    def began_well(self, request_id: str, unit: str) -> None:
        """A later attempt at a request has begun with ordinary text."""
        self.link.send(Began(request_id, unit))
