"""What may go wrong when an endpoint is asked, each with a name of its own.

The words of these errors are ours, but for ``BadStatus.message``: what the server said, capped,
with the key taken out. None of them holds a key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from extproc.detect import Finding
    from extproc.probes.reply import Reply

MESSAGE = 300
"""Characters of a server's message that are kept."""


class ProbeError(Exception):
    """An endpoint could not be asked, or did not answer as it should."""

    kind: ClassVar[str] = "error"
    """One word, for metrics and results."""


class Misconfigured(ProbeError):
    """The target cannot be used as it is described: a URL, a key, a certificate."""

    kind = "misconfigured"


class Unreachable(ProbeError):
    """No connection: an unknown name, no route, a failed TLS handshake, a cut."""

    kind = "unreachable"


class Refused(ProbeError):
    """Nobody listens on that port."""

    kind = "refused"


class TimedOut(ProbeError):
    """No answer, or no end of it, within the time given."""

    kind = "timeout"


class NotJson(ProbeError):
    """An answer that promises JSON and is none. ``reply`` holds its verdict, if it was judged."""

    kind = "not_json"

    def __init__(self, said: str, reply: Reply | None = None) -> None:
        super().__init__(said)
        self.reply = reply


class BadStatus(ProbeError):
    """Another status than 200. ``reply`` holds the verdict: a NaN often ends in a 400 or 500."""

    kind = "bad_status"

    def __init__(
        self, said: str, status: int, message: str = "", reply: Reply | None = None
    ) -> None:
        super().__init__(said)
        self.status = status
        self.message = message
        self.reply = reply

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Those of the reply."""
        return self.reply.findings if self.reply is not None else ()
