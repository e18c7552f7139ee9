"""Events of one response -> findings -> verdict."""

from __future__ import annotations

from collections.abc import Iterable

from extproc.detect.beginning import Beginning
from extproc.detect.catalogue import Catalogue, default_catalogue
from extproc.detect.detector import Ending, TextDetector
from extproc.detect.finding import Finding, Kind, Verdict, Weight
from extproc.wire import Channel, Event, Finish, Text, Usage

_DEFAULT = default_catalogue()


class Inspector:
    """Judges one response. Channels, choices and tool calls are judged apart.

    ``corrupt`` may be read after every feed and never goes back to False. Not to be used after
    ``finish`` but for reading.
    """

    __slots__ = (
        "_beginning",
        "_catalogue",
        "_ending",
        "_event_detectors",
        "_readable",
        "_text_detectors",
        "corrupt",
        "findings",
        "first_token",
        "tokens",
    )

    MAX_CHANNELS = 64
    """Channels judged apart in one response; a body that opens more is not worth the memory."""

    def __init__(self, catalogue: Catalogue = _DEFAULT) -> None:
        self._catalogue = catalogue
        self._event_detectors = catalogue.event_detectors()
        self._text_detectors: dict[tuple[int, Channel, int], list[TextDetector]] = {}
        self._ending = Ending()
        self._beginning = Beginning()
        self._readable = False
        self.corrupt = False
        """Whether something proves the response corrupt."""
        self.findings: list[Finding] = []
        self.first_token: int | None = None
        self.tokens = 0
        """Streamed tokens seen, as far as the wire shows them."""

    @property
    def ordinary(self) -> bool:
        """Whether the beginning was ordinary text, and nothing speaks against it."""
        return self._beginning.ordinary and not self.findings

    def feed(self, events: Iterable[Event]) -> None:
        """Takes the next events."""
        for event in events:
            kind = type(event)
            if kind is Text:
                self._readable = True
                self._text(event)  # type: ignore[arg-type]
            elif kind is Finish:
                self._readable = True
                self._ending.reasons[event.choice] = event.reason  # type: ignore[union-attr]
            elif kind is Usage:
                tokens = event.completion_tokens  # type: ignore[union-attr]
                self._ending.completion_tokens = max(self._ending.completion_tokens, tokens)
            for detector in self._event_detectors:
                if (finding := detector.feed(event)) is not None:
                    self._found(finding)

    def finish(self) -> Verdict:
        """Takes the end of the response, and says what it was."""
        reasons = self._ending.reasons
        for (choice, _, _), detectors in self._text_detectors.items():
            for detector in detectors:
                if (finding := detector.finish(reasons.get(choice, ""))) is not None:
                    self._found(finding)
        for watcher in self._event_detectors:
            if (finding := watcher.finish(self._ending)) is not None:
                self._found(finding)
        return self.verdict()

    def verdict(self) -> Verdict:
        """The verdict on what has been read so far."""
        weights = {finding.weight for finding in self.findings}
        if self.corrupt:
            kind = Kind.CORRUPT
        elif Weight.HINT in weights:
            kind = Kind.SUSPECT
        elif Weight.NOTE in weights or not self._readable:
            kind = Kind.UNCHECKED
        else:
            kind = Kind.CLEAN
        return Verdict(kind, tuple(self.findings), self.first_token)

    def _text(self, event: Text) -> None:
        self.tokens += event.tokens
        if not event.text:
            return
        if not self._beginning.ordinary:
            self._beginning.feed(event.text)
        key = (event.choice, event.channel, event.part)
        detectors = self._text_detectors.get(key)
        if detectors is None:
            if len(self._text_detectors) == self.MAX_CHANNELS:
                return
            detectors = self._text_detectors[key] = self._catalogue.text_detectors()
        for detector in detectors:
            if (finding := detector.feed(event.text, event.tokens)) is not None:
                self._found(finding)

    def _found(self, finding: Finding) -> None:
        self.findings.append(finding)
        if finding.weight is Weight.PROOF and not self.corrupt:
            self.corrupt = True
            self.first_token = self.tokens
