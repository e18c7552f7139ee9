"""Events of one response -> findings -> verdict."""

from __future__ import annotations

from collections.abc import Iterable

from extproc.detect.asked import Asked
from extproc.detect.beginning import Beginning
from extproc.detect.catalogue import Catalogue, make_catalogue
from extproc.detect.channel import ChannelText
from extproc.detect.combination import two_hints_fit
from extproc.detect.detector import Ending, EventDetector, Setting
from extproc.detect.excuses import excused
from extproc.detect.finding import Finding, Kind, Verdict, Weight
from extproc.wire import Channel, Event, Finish, RequestFacts, Scores, Text, ToolCall, Usage, Vector

_DEFAULT = make_catalogue()


class Inspector:
    """Judges one response. Channels, choices and tool calls are judged apart.

    ``catalogue``: the unit's own, all detectors by default. ``request``: what was asked, if it is
    known.

    ``corrupt`` may be read after every feed and never goes back to False. Not to be used after
    ``finish`` but for reading.
    """

    __slots__ = (
        "_beginning",
        "_catalogue",
        "_channels",
        "_ending",
        "_event_detectors",
        "_excused",
        "_last",
        "_policy",
        "_readers",
        "_setting",
        "corrupt",
        "findings",
        "first_token",
        "judged",
        "tokens",
    )

    MAX_CHANNELS = 64
    """Channels judged apart in one response; a body that opens more is not worth the memory."""

    MAX_FINDINGS = 32
    """Findings kept of one response; a proof is always kept."""

    def __init__(
        self,
        catalogue: Catalogue | None = None,
        request: RequestFacts | None = None,
    ) -> None:
        if catalogue is None:
            catalogue = _DEFAULT
        self._catalogue = catalogue
        self._policy = catalogue.policy
        request = request or RequestFacts()
        self._setting = Setting(request, Channel.CONTENT, Asked(request))
        self._event_detectors = catalogue.event_detectors(self._setting)
        self._readers: dict[type[Event] | Channel, list[EventDetector]] = {}
        for detector in self._event_detectors:
            for kind in detector.reads:
                self._readers.setdefault(kind, []).append(detector)
        self._channels: dict[tuple[int, Channel, int], ChannelText] = {}
        self._ending = Ending()
        self._beginning = Beginning()
        self._excused = excused(request)
        self.corrupt = False
        """Whether something proves the response corrupt."""
        self.judged = ""
        """The end of the text that proved it, as it was then."""
        self._last: ChannelText | None = None  # the channel read last
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
            if type(event) is Text:
                self._ending.readable = True
                self._text(event)
            elif type(event) is Finish:
                self._ending.readable = True
                self._ending.reasons[event.choice] = event.reason
            elif type(event) is Usage:
                ending = self._ending
                ending.completion_tokens = max(ending.completion_tokens, event.completion_tokens)
            elif type(event) in (Vector, Scores, ToolCall):
                self._ending.readable = True
            for detector in self._readers.get(type(event), ()):
                if (finding := detector.feed(event)) is not None:
                    self._found(finding)

    def close(self) -> None:
        """Nothing more is read: lets go of the text. What was found may still be read. Without it
        the channels, which report back here, would stay until the collector finds the circle."""
        self._channels.clear()
        self._last = None

    def finish(self) -> Verdict:
        """Takes the end of the response, and says what it was."""
        ending = self._ending
        alone = ending.completion_tokens if len(self._channels) == 1 else -1
        for (choice, _, _), channel in self._channels.items():
            self._last = channel
            channel.finish(ending.reasons.get(choice, ""), alone)
        for watcher in self._event_detectors:
            if (finding := watcher.finish(ending)) is not None:
                self._found(finding)
        if not self.corrupt and (finding := two_hints_fit(self.findings)) is not None:
            self._found(finding)
        return self.verdict()

    def verdict(self) -> Verdict:
        """The verdict on what has been read so far."""
        weights = {finding.weight for finding in self.findings}
        if self.corrupt:
            kind = Kind.CORRUPT
        elif Weight.HINT in weights:
            kind = Kind.SUSPECT
        elif Weight.NOTE in weights or not self._ending.readable:
            kind = Kind.UNCHECKED
        else:
            kind = Kind.CLEAN
        return Verdict(kind, tuple(self.findings), self.first_token)

    def _text(self, event: Text) -> None:
        self.tokens += event.tokens
        text = event.text
        for detector in self._readers.get(event.channel, ()):
            if (finding := detector.feed(event)) is not None:
                self._found(finding)
        if not text:
            return
        if not self._beginning.ordinary:
            self._beginning.feed(text)
        key = event[0], event[1], event[4]
        channel = self._channels.get(key)
        if channel is None:
            if len(self._channels) == self.MAX_CHANNELS:
                return
            channel = self._channels[key] = self._open(event.channel)
        self._last = channel
        channel.feed(text, event.tokens)

    def _open(self, channel: Channel) -> ChannelText:
        setting = self._setting
        if channel is not setting.channel:
            setting = Setting(setting.request, channel, setting.asked)
        return ChannelText(
            self._catalogue.text_detectors(setting),
            self._catalogue.delta_detectors(setting),
            self._found,
        )

    def _found(self, finding: Finding) -> None:
        weighed = self._policy.weigh(finding)
        if weighed.weight is Weight.PROOF and weighed.detector in self._excused:
            weighed = weighed._replace(weight=Weight.HINT)
        proof = weighed.weight is Weight.PROOF
        if len(self.findings) < self.MAX_FINDINGS or (proof and not self.corrupt):
            self.findings.append(weighed)
        if proof and not self.corrupt:
            self.corrupt = True
            self.first_token = self.tokens
            if self._last is not None:
                self.judged = self._last.end
