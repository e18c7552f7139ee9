"""Active probes: the questions, the matrix of them, its budget, and the client that asks."""

from extproc.probes.client import Client, ClientSettings
from extproc.probes.discovery import (
    Capabilities,
    Readiness,
    Support,
    Way,
    corrupted_requests,
    count_tokens,
    discover,
    readiness,
)
from extproc.probes.errors import (
    BadStatus,
    Misconfigured,
    NotJson,
    ProbeError,
    Refused,
    TimedOut,
    Unreachable,
)
from extproc.probes.reply import Call, Reply
from extproc.probes.target import ClientTls, Target

__all__ = [
    "BadStatus",
    "Call",
    "Capabilities",
    "Client",
    "ClientSettings",
    "ClientTls",
    "Misconfigured",
    "NotJson",
    "ProbeError",
    "Readiness",
    "Refused",
    "Reply",
    "Support",
    "Target",
    "TimedOut",
    "Unreachable",
    "Way",
    "corrupted_requests",
    "count_tokens",
    "discover",
    "readiness",
]
