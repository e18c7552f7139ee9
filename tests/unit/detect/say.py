"""Short ways to have a text judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.public import tokens_of
from extproc.detect import Inspector, Policy, Verdict, make_catalogue
from extproc.detect.policy import DEFAULT_POLICY
from extproc.wire import Channel, Event, Finish, RequestFacts, Text, Usage

PROSE = (
    "The vote was close, and both campaigns agreed to a recount by hand. Observers sat on either "
    "side of each table while a clerk read the ballots aloud. Disputed papers went into a separate "
    "tray with a numbered slip. By evening the margin had moved by nineteen votes, far too few to "
    "change the outcome, and the loser conceded before the last box was opened. "
)


def asking(prompt: str, **more: object) -> RequestFacts:
    """The facts of a chat request."""
    body = {"messages": [{"role": "user", "content": prompt}], **more}
    return RequestFacts.parse("POST", "/v1/chat/completions", body)


def whole(
    text: str,
    ending: str = "stop",
    request: RequestFacts | None = None,
    tokens: int = -1,
    channel: Channel = Channel.CONTENT,
    policy: Policy = DEFAULT_POLICY,
) -> Verdict:
    """The verdict on a whole body of one text."""
    inspector = Inspector(make_catalogue(policy), request)
    inspector.feed([Text(0, channel, text), Finish(0, ending)])
    if tokens >= 0:
        inspector.feed([Usage(-1, tokens)])
    return inspector.finish()


def streamed(
    text: str | Sequence[str],
    ending: str | None = "stop",
    request: RequestFacts | None = None,
    channel: Channel = Channel.CONTENT,
) -> Verdict:
    """The verdict on a stream: deltas as given, or of about a token each."""
    deltas = tokens_of(text) if isinstance(text, str) else text
    inspector = Inspector(request=request)
    for delta in deltas:
        inspector.feed([Text(0, channel, delta, 1)])
    if ending is not None:
        inspector.feed([Finish(0, ending)])
    return inspector.finish()


def events(happened: Iterable[Event], request: RequestFacts | None = None) -> Verdict:
    """The verdict on events."""
    inspector = Inspector(request=request)
    inspector.feed(happened)
    return inspector.finish()


def names(verdict: Verdict) -> set[str]:
    return {finding.name for finding in verdict.findings}
