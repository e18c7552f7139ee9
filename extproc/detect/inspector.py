"""Events of one response -> findings -> verdict."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

from extproc.detect.asked import Asked
from extproc.detect.beginning import Beginning
from extproc.detect.catalogue import Catalogue, make_catalogue
from extproc.detect.channel import ChannelText
from extproc.detect.combination import two_hints_fit
from extproc.detect.detector import Ending, Setting
from extproc.detect.excuses import excused
from extproc.detect.finding import Finding, Kind, Verdict, Weight
from extproc.wire import (
    Channel,
    Event,
    Finish,
    RequestFacts,
    Scores,
    Text,
    Texts,
    ToolCall,
    Usage,
    Vector,
)

_DEFAULT = make_catalogue()
_NOTHING_KNOWN = Setting()


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
        self._setting = (
            _NOTHING_KNOWN if request is None else Setting(request, Channel.CONTENT, Asked(request))
        )
        self._event_detectors = catalogue.event_detectors(self._setting)
        self._readers = _readers(tuple([detector.reads for detector in self._event_detectors]))
        self._channels: dict[tuple[int, Channel, int], ChannelText] = {}
        self._ending = Ending()
        self._beginning = Beginning()
        self._excused = excused(self._setting.request)
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
                continue
            if type(event) is Texts:
                self._ending.readable = True
                self._texts(event)
                continue
            if type(event) is Finish:
                self._ending.readable = True
                self._ending.reasons[event.choice] = event.reason
            elif type(event) is Usage:
                ending = self._ending
                ending.completion_tokens = max(ending.completion_tokens, event.completion_tokens)
            elif type(event) in (Vector, Scores, ToolCall):
                self._ending.readable = True
            self._event(event, type(event))

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

    def _event(self, event: Event, kind: type[Event] | Channel) -> None:
        for place in self._readers.get(kind, ()):
            if (finding := self._event_detectors[place].feed(event)) is not None:
                self._found(finding)

    def _text(self, event: Text) -> None:
        self.tokens += event.tokens
        self._event(event, event.channel)
        if event.text:
            self._pieces((event[0], event[1], event[4]), (event.text,), event.tokens)

    def _texts(self, event: Texts) -> None:
        self.tokens += event.tokens * len(event.texts)
        self._event(event.joined(), event.channel)
        self._pieces((event[0], event[1], event[4]), event.texts, event.tokens)

    def _pieces(self, key: tuple[int, Channel, int], texts: tuple[str, ...], tokens: int) -> None:
        beginning = self._beginning
        if not beginning.ordinary:
            for text in texts:
                beginning.feed(text)
        channel = self._channels.get(key)
        if channel is None:
            if len(self._channels) == self.MAX_CHANNELS:
                return
            channel = self._channels[key] = self._open(key[1])
        self._last = channel
        channel.feed(texts, tokens)

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
                self.first_token -= self._last.unread
                self.judged = self._last.end


@lru_cache(maxsize=64)
def _readers(
    reads: tuple[Collection[type[Event] | Channel], ...],
) -> Mapping[type[Event] | Channel, tuple[int, ...]]:
    # For each kind of event the places of the detectors that read it: the same for most responses.
    places: dict[type[Event] | Channel, tuple[int, ...]] = {}
    for place, kinds in enumerate(reads):
        for kind in kinds:
            places[kind] = (*places.get(kind, ()), place)
    return MappingProxyType(places)
