"""Text that was decoded wrongly, or from random bytes."""

from __future__ import annotations

import re
from typing import ClassVar

from extproc.detect.detector import Setting
from extproc.detect.finding import Finding, Weight
from extproc.detect.repetition import data_before
from extproc.detect.tail import Tail

_CONTROL = re.compile("[\x00-\x07\x0e-\x1a\x1c-\x1e]")
"""Not backspace, form feed, escape, unit separator and delete: man, info and terminals use them."""

_C1 = re.compile("[\x80-\x84\x86-\x9f]")
_PRIVATE = re.compile("[\ue000-\uf8ff\U000f0000-\U0010fffd]")
_CP1252 = "[\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]"
_MOJIBAKE = re.compile(f"([ÃÂÅÄÐÑÎÏ×Ø]){_CP1252}|(â)€|([ä-é])[\x80-\x9f]")
_LEADS = {"Â": "Ã", "Å": "Ã", "Ä": "Ã", "Ñ": "Ð", "Ï": "Î"}
"""First bytes of one script count as one kind."""
_ABOUT = re.compile(
    r"unicode|encod|utf|charset|mojibake|replacement|ansi|escape|icon|glyph|font", re.I
)


def _numbers(text: str) -> bool:
    text = text[-400:]
    return sum(map(text.count, "0123456789")) >= 0.2 * len(text)


class Decoding:
    """``replacement``: U+FFFD, where bytes were no UTF-8. One may stand at a cut, or be spoken of.
    ``mojibake``: UTF-8 read as Latin-1 or CP1252; also a share of the characters. Proof when it
    is of three scripts at once: text wrongly stored, which a model may have learnt, is of one.
    ``control``, ``private_use``: characters that nobody types.
    Source: shares are ten times what natural text with a stray character shows.
    """

    __slots__ = ("_c1", "_counts", "_done", "_hinted", "_leads", "_limits")

    name: ClassVar[str] = "decoding"
    stride: ClassVar[int] = 64

    def __init__(
        self,
        replacement: int = 3,
        mojibake: int = 5,
        control: int = 8,
        private_use: int = 12,
        share: float = 0.02,
    ) -> None:
        self._limits = (replacement, mojibake, control, private_use, share)
        self._counts = [0, 0, 0, 0]
        self._c1 = 0
        self._leads: set[str] = set()
        self._done = self._hinted = False

    @classmethod
    def create(cls, setting: Setting) -> Decoding:
        return cls()

    def feed(self, tail: Tail, fresh: int) -> Finding | None:
        text = tail.text[-fresh:]
        if self._done or (text.isascii() and text.isprintable()):
            return None
        counts = self._counts
        replacement, mojibake, control, private_use, share = self._limits
        counts[0] += text.count("\ufffd")
        if not text.isascii():
            for match in _MOJIBAKE.finditer(text):
                counts[1] += 1
                lead = match.group(1) or match.group(2) or "ä"
                self._leads.add(_LEADS.get(lead, lead))
        counts[2] += len(_CONTROL.findall(text))
        if not text.isascii():
            self._c1 += len(_C1.findall(text))
            counts[3] += len(_PRIVATE.findall(text))
        if not (any(counts) or self._c1):
            return None
        if _ABOUT.search(tail.text):
            return None
        total = tail.total
        if counts[0] >= replacement:
            return self._found("replacement", counts[0], replacement)
        if counts[1] >= mojibake and counts[1] >= share * total:
            if len(self._leads) >= 3:
                return self._found("mojibake", counts[1], mojibake)
            if not self._hinted:
                self._hinted = True
                shape = f"{counts[1]} characters"
                return Finding(self.name, "mojibake", counts[1], mojibake, Weight.HINT, shape)
        # Dumps hold some, tables of characters hold C1; prose holds none.
        controls = counts[2] + self._c1
        least = 5 * share if data_before(tail.text) else share / 2
        if controls >= control and controls >= least * total and not _numbers(tail.text):
            return self._found("control", controls, control)
        if counts[3] >= private_use and counts[3] >= 10 * share * total:
            return self._found("private_use", counts[3], private_use)
        return None

    def finish(self, tail: Tail, reason: str) -> Finding | None:
        if not self._done and self._counts[0] and tail.text.rstrip("\ufffd").count("\ufffd"):
            return Finding(self.name, "replacement", self._counts[0], self._limits[0], Weight.HINT)
        return None

    def _found(self, reason: str, value: int, limit: int) -> Finding:
        self._done = True
        return Finding(self.name, reason, value, limit, Weight.PROOF, f"{value} characters")
