"""One channel of one choice: pieces as they arrive -> blocks for the detectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from extproc.detect.detector import DeltaDetector, TextDetector
from extproc.detect.finding import Finding
from extproc.detect.tail import Tail

BLOCK = 16
"""Characters of the smallest block; every stride is this times a power of two."""


class ChannelText:
    """Cuts a text into aligned blocks and hands each to the detectors whose stride it completes.

    Amortised: a block costs one append and one call a detector of stride BLOCK; the others are
    called as often less as their strides are longer.
    """

    __slots__ = ("_blocks", "_deltas", "_found", "_groups", "_pending", "_tail", "unread")

    def __init__(
        self,
        detectors: Sequence[TextDetector],
        deltas: Sequence[DeltaDetector],
        found: Callable[[Finding], None],
    ) -> None:
        groups: dict[int, list[TextDetector]] = {}
        for detector in detectors:
            groups.setdefault(detector.stride // BLOCK, []).append(detector)
        self._groups = sorted(groups.items())
        self._deltas = deltas
        self._found = found
        self._tail = Tail()
        self._pending = ""
        self._blocks = 0
        self.unread = 0
        """Tokens of the pieces that ``feed`` was given and has not come to yet."""

    @property
    def end(self) -> str:
        """The last characters read, some thousand at most."""
        return self._tail.text + self._pending

    def feed(self, texts: Sequence[str], tokens: int) -> None:
        """Takes the next pieces, of ``tokens`` each."""
        tail, watchers, pending = self._tail, self._deltas, self._pending
        if tokens:
            tail.whole = False
        self.unread = tokens * len(texts)
        for text in texts:
            self.unread -= tokens
            if tokens:
                tail.deltas += 1
            for watcher in watchers:
                if (finding := watcher.delta(tail, text, tokens)) is not None:
                    self._found(finding)
            start = BLOCK - len(pending)
            if start > len(text):
                pending += text
            else:
                self._pending = ""
                self._block(pending + text[:start])
                while start + BLOCK <= len(text):
                    self._block(text[start : start + BLOCK])
                    start += BLOCK
                pending = text[start:]
            self._pending = pending

    def finish(self, reason: str, completion_tokens: int) -> None:
        """Takes the end. ``completion_tokens`` is -1 unless all of them are of this text."""
        tail, rest = self._tail, len(self._pending)
        tail.tokens = completion_tokens
        if rest:
            tail.append(self._pending)
        for blocks, detectors in self._groups:
            fresh = self._blocks % blocks * BLOCK + rest
            for detector in detectors:
                for finding in (
                    detector.feed(tail, fresh) if fresh else None,
                    detector.finish(tail, reason),
                ):
                    if finding is not None:
                        self._found(finding)
        for watcher in self._deltas:
            if (finding := watcher.finish(tail, reason, completion_tokens)) is not None:
                self._found(finding)
        self._pending = ""

    def _block(self, block: str) -> None:
        tail = self._tail
        tail.append(block)
        self._blocks = count = self._blocks + 1
        for blocks, detectors in self._groups:
            if count % blocks:
                break
            fresh = blocks * BLOCK
            for detector in detectors:
                if (finding := detector.feed(tail, fresh)) is not None:
                    self._found(finding)
