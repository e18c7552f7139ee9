"""Our detectors' word on answers to our own questions."""

from __future__ import annotations

import math
from collections.abc import Iterable

from extproc.detect import Finding, Inspector, Kind, Weight
from extproc.gates.drift import UNIFORM
from extproc.probes import Reply
from extproc.wire import Channel, Ended, Finish, Status, Text, Usage


def corrupt(reply: Reply) -> str:
    """What proves an answer corrupt, "" if nothing does. For questions that ask for no repetition.

    A reply comes judged beside its request, where numbers and words of a long prompt may excuse
    what looks like a wanted repetition. Our own prompts want none: the text is judged alone, too.
    """
    if reply.corrupt and not _filled_in(reply):
        return seen(reply)
    inspector = Inspector()
    inspector.feed(
        [
            Status(200),
            Text(0, Channel.CONTENT, reply.text),
            Finish(0, reply.finish),
            Usage(reply.usage.prompt, reply.usage.completion),
            Ended(False, True),
        ]
    )
    verdict = inspector.finish()
    return _named(verdict.findings) if verdict.kind is Kind.CORRUPT else ""


def _filled_in(reply: Reply) -> bool:
    """Whether all that speaks against an answer is that every token has the same log probability,
    and no tiny one: a proxy that knows none fills in a constant."""
    proofs = {finding.name for finding in reply.findings if finding.weight is Weight.PROOF}
    values = {token.logprob for token in reply.logprobs}
    return proofs == {"logprobs.identical"} and all(v is not None and v > UNIFORM for v in values)


def seen(reply: Reply) -> str:
    """What the detectors found in a corrupt answer, without its text but for its shape."""
    return _named(reply.findings)


def _named(findings: Iterable[Finding]) -> str:
    for finding in findings:
        value = f" {finding.value:g}" if math.isfinite(finding.value) else ""
        return f"{finding.name}{value}" + (f" ({finding.shape})" if finding.shape else "")
    return "corrupt"
