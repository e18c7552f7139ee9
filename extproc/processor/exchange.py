"""One response as the sidecar sees it: from its headers to its record. No I/O.

The stream (stream.py) tells it what arrives and asks it what to answer. Whatever goes wrong in
here is caught here: the response then passes uninspected, and a metric says so.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from extproc.detect import Inspector, Kind, Verdict
from extproc.health import Response
from extproc.processor import replies
from extproc.processor.asking import Asking
from extproc.processor.facts import ResponseHeaders, header, read_facts, read_headers
from extproc.processor.hold import Release, decide
from extproc.processor.services import Services
from extproc.wire import Event, Framing, Reader, Status, Text, UnknownEncoding

log = logging.getLogger(__name__)

PORTION = 16384
"""Characters of text that are inspected in one go where a message may bring many: dense text takes
about a microsecond a character, and every other stream waits meanwhile."""

LOGGED = 8
"""Findings that an access log is told, by name, in the order in which they were found."""

_UNCHECKED = Verdict(Kind.UNCHECKED)
_STREAMS = frozenset({Framing.SSE, Framing.NDJSON})


class Unread(StrEnum):
    """Why a response was not judged."""

    SAMPLED = "sampled"
    """``sampling.share`` left it out."""

    FORMAT = "format"
    """No dialect reads this path and content type, such as a list of models."""

    ENCODING = "encoding"
    """A content encoding that nobody here knows."""

    EMPTY = "empty"
    """It had no body."""

    CUT = "cut"
    """It ended before its end: the client left, or the engine broke the connection."""

    UNREADABLE = "unreadable"
    """Its body was no answer in the form that was expected, or passed a limit."""

    FAULT = "fault"
    """A fault of our own."""


class Exchange:
    """One response. ``inspecting`` turns False when nothing more needs to be read."""

    __slots__ = (
        "_context",
        "_ended",
        "_facts",
        "_headers",
        "_identity",
        "_inspector",
        "_marked",
        "_portions",
        "_reader",
        "_recorded",
        "_services",
        "_state",
        "_verdict",
        "_why",
        "inspecting",
        "received",
        "waiting",
    )

    def __init__(self, services: Services, request: Any, asking: Asking) -> None:
        """``request`` carries the response headers; ``asking`` is what the request phase told."""
        self._facts = facts = read_facts(request, services.client_attributes)
        self._services = services
        self._headers: ResponseHeaders = read_headers(request.response_headers, replies.MARKER)
        self._identity = services.registry.resolve(
            facts.cluster,
            facts.cluster_metadata,
            facts.host_metadata,
            {
                what: header(request.response_headers, name)
                for what, name in services.trusted_headers.items()
            },
        )
        if not self._identity.host:
            self._identity = self._identity._replace(host=facts.address)
        size = facts.request_size if facts.request_size >= 0 else asking.size
        self._context = services.contexts.of(size)
        self._state = services.state(self._identity.unit, self._context)
        self._verdict: Verdict | None = None
        self._recorded = False
        self._marked = False
        self.received = 0
        self.waiting: list[bytes] = []
        """Messages that have been answered, and are read by ``read``: together, so that the work is
        done in one go, a few tokens later."""
        self._portions: list[list[Event]] = []  # of what came, still to be inspected
        self._ended = False
        self._inspector: Inspector | None = None
        self._reader: Reader | None = None
        self._why = Unread.EMPTY
        self.inspecting = False
        if self._headers.marked:
            services.metrics.spoofed.labels(self._identity.unit).inc()
        # An error is read too: a NaN that a strict encoder refused shows as a 500.
        if not request.response_headers.end_of_stream:
            self._start(facts.path or asking.path, asking)

    def _start(self, path: str, asking: Asking) -> None:
        services, headers = self._services, self._headers
        unit, _, host = self._identity
        # A second attempt is one half of a comparison, hence always read.
        if self._facts.attempt <= 1 and not services.sampler.takes(
            unit, host, self._context, self._state
        ):
            self._why = Unread.SAMPLED
            return
        route = services.router.route(path, headers.content_type)
        if route is None:
            self._why = Unread.FORMAT
            return
        try:
            self._reader = Reader(
                route.new_dialect(), route.framing, headers.content_encoding, services.limits
            )
        except UnknownEncoding:
            self._why = Unread.ENCODING
            return
        self._why = Unread.CUT
        catalogue = services.catalogues.get(self._identity.unit, services.catalogue)
        self._inspector = Inspector(catalogue, asking.facts(path))
        self._inspector.feed((Status(headers.status),))
        self.inspecting = True

    @property
    def corrupt(self) -> bool:
        """Whether the response is known to be corrupt."""
        return self._inspector is not None and self._inspector.corrupt

    @property
    def streamed(self) -> bool:
        """Whether the body is a stream of documents, as far as its first bytes have told."""
        return self._reader is not None and self._reader.framing in _STREAMS

    @property
    def terminable(self) -> bool:
        """Whether an error event can be put into the body: a plain event stream."""
        sse = self._reader is not None and self._reader.framing is Framing.SSE
        return sse and not self._headers.content_encoding

    def feed(self, data: bytes, ended: bool) -> bool:
        """Reads a body message now. ``ended``: it is the last. True when it was too much to read in
        one go: ``go_on`` reads the rest, and others should have their turn before it does."""
        self.waiting.append(data)
        return self.read(ended)

    def go_on(self) -> bool:
        """Reads a portion of what came. True when there is still more."""
        reader, inspector = self._reader, self._inspector
        if not self._portions or reader is None or inspector is None:
            return False
        try:
            inspector.feed(self._portions.pop(0))
            if self._portions:
                return True
            if self._ended:
                self._conclude(inspector.finish())
            elif inspector.corrupt or reader.stopped:
                self._conclude(inspector.verdict())
        except Exception:
            self._failed()
        return False

    def read(self, ended: bool) -> bool:
        """Reads what waits, in one go. ``ended`` and the result are those of ``feed``."""
        data = b"".join(self.waiting)
        self.waiting.clear()
        self.received += len(data)
        reader = self._reader
        if not self.inspecting or reader is None:
            return False
        self._ended = ended
        try:
            events = reader.feed(data)
            if ended:
                events += reader.finish()
            # A body that came whole, or was compressed, may say much at once.
            if self._headers.content_encoding or (self.received > PORTION and not self.streamed):
                self._portions.extend(_in_portions(events))
            else:
                self._portions.append(events)
        except Exception:
            self._failed()
        return self.go_on()

    def _conclude(self, verdict: Verdict) -> None:
        self._verdict = verdict
        self._why = Unread.UNREADABLE
        self.inspecting = False

    def _failed(self) -> None:
        # Fail open: our own fault must not become the client's.
        log.exception("inspection failed; the response passes uninspected")
        self._services.metrics.errors.labels("inspect").inc()
        self._portions.clear()
        self._verdict = _UNCHECKED
        self._why = Unread.FAULT
        self.inspecting = False

    def hold_ends(self) -> Release | None:
        """Whether the headers may go now, and why."""
        if self._inspector is None:
            return Release.UNREADABLE
        if self.corrupt:
            return Release.CORRUPT
        if self._verdict is not None:
            return Release.ENDED
        return decide(
            self._services.hold, self._state, self.streamed, self._inspector, self.received
        )

    def headers_reply(self, reason: Release) -> bytes:
        """The answer to the response headers, given what is known now: they go for ``reason``."""
        unit, release, _ = self._identity
        if reason is Release.ORDINARY and self._facts.attempt > 1:
            self._services.began_well(self._facts.request_id, unit)
        if self.corrupt:
            self._marked = True
            self._services.metrics.marked.labels(unit).inc()
        return replies.headers_reply(
            unit,
            release,
            self._state.value,
            self.corrupt,
            self._headers.marked,
            self._metadata() if self.corrupt else (),
        )

    def last_reply(self) -> bytes:
        """The answer to the last body message that is read: it carries the verdict."""
        return replies.body_reply(self._metadata())

    def termination_reply(self) -> bytes:
        """Replaces a body message with an error event that ends the stream for the client."""
        self._services.metrics.terminated.labels(self._identity.unit).inc()
        return replies.replacement_reply(replies.ERROR_EVENT, self._metadata())

    def close(self) -> None:
        """The response is over, also when it was cut off: into the book, once."""
        if self._recorded:
            return
        self._recorded = True
        if self.waiting:
            self.read(False)
        verdict = self._settle()
        unit, release, host = self._identity
        services, facts = self._services, self._facts
        judged = self._inspector.judged if self._inspector is not None else ""
        if verdict.kind is Kind.UNCHECKED:
            services.metrics.unchecked.labels(unit, self._why.value).inc()
        try:
            services.record(
                Response(
                    unit,
                    release,
                    self._context,
                    host,
                    verdict.kind,
                    verdict.findings,
                    facts.request_id,
                    services.clock(),
                    self._marked,
                    facts.attempt,
                    services.source(facts.client),
                    facts.traceparent,
                    services.answer(judged),
                ),
                judged,
            )
        except Exception:
            log.exception("a response could not be recorded")
            services.metrics.errors.labels("record").inc()
        if self._inspector is not None:
            self._inspector.close()

    def _settle(self) -> Verdict:
        if self._verdict is None:
            # Cut off before its end: only what is proven counts.
            proven = self._inspector is not None and self._inspector.corrupt
            self._verdict = self._inspector.verdict() if proven and self._inspector else _UNCHECKED
        return self._verdict

    def _metadata(self) -> replies.Metadata:
        verdict = self._settle()
        unit, release, _ = self._identity
        pairs = [
            ("verdict", verdict.kind.value),
            ("unit", unit),
            ("release", release),
            ("class", self._context),
            ("state", self._state.value),
        ]
        if verdict.findings:
            names = dict.fromkeys(finding.name for finding in verdict.findings)
            pairs.append(("findings", ",".join([*names][:LOGGED])))
        if self._marked:
            pairs.append(("marked", "true"))
        return tuple(pairs)


def _in_portions(events: list[Event]) -> Iterator[list[Event]]:
    portion: list[Event] = []
    size = 0
    for event in events:
        for part in _parts(event):
            portion.append(part)
            size += 1 + (len(part.text) if type(part) is Text else 0)
            if size >= PORTION:
                yield portion
                portion, size = [], 0
    yield portion


def _parts(event: Event) -> Iterator[Event]:
    # A text without deltas is judged alike however it is cut; deltas are bounded as messages are.
    if type(event) is Text and not event.tokens and len(event.text) > PORTION:
        for start in range(0, len(event.text), PORTION):
            yield event._replace(text=event.text[start : start + PORTION])
    else:
        yield event
