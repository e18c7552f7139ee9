"""What the request says about repetition: "repeat X 50 times" is not a loop."""

from __future__ import annotations

import re

from extproc.wire import RequestFacts

UNSEEN = RequestFacts()
"""Of a request whose body was not seen."""

PAGE, LINES = 4000, 300
"""Characters."""

_ENDLESS = re.compile(r"\b(forever|endless\w*|infinite\w*|never stop\w*|without end)\b", re.I)

_NUMBER = re.compile(r"\d{1,6}(?:[ ,.]\d{3})*(?!\d)")
_WORDS = {
    "ten": 10, "eleven": 11, "twelve": 12, "dozen": 12, "fifteen": 15, "twenty": 20, "thirty": 30,
    "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
    "hundred": 100, "thousand": 1000, "january": 31, "month": 31, "year": 366,
    "zehn": 10, "zwölf": 12, "zwanzig": 20, "dreißig": 30, "fünfzig": 50, "hundert": 100,
    "tausend": 1000, "dix": 10, "vingt": 20, "trente": 30, "cinquante": 50, "cent": 100,
    "mille": 1000, "diez": 10, "veinte": 20, "treinta": 30, "cincuenta": 50, "cien": 100,
    "mil": 1000, "dez": 10, "vinte": 20, "cem": 100, "dieci": 10, "venti": 20, "cento": 100,
    "десять": 10, "двадцать": 20, "тридцать": 30, "пятьдесят": 50, "сто": 100, "тысяча": 1000,
}  # fmt: skip
_HAN = {"十": 10, "百": 100, "千": 1000, "万": 10000}
_WORD = re.compile(r"[^\W\d_]+")
_CUE = re.compile(
    r"\b(repeat\w*|repetition|times|copies|duplicate\w*|over and over|again and again|loop(ing|s)?"
    r"|pad(ded|ding)?|fill(ed)?|rows?|lines?|columns?|zero(es|s|ed)?|blank|empty|placeholders?"
    r"|pattern|checkerboard|grid|border|separators?|tile[sd]?|mantra|chant|chorus|refrain|lyrics"
    r"|laugh\w*|scream\w*|forever|endless\w*|long string|nest(ed)?|indent\w*|ascii|hex ?dump"
    r"|stutter|wiederhol\w*|mal|zeilen|répèt\w*|répét\w*|fois|lignes|repite|repet\w+|veces|vezes"
    r"|líneas|linhas|ripet\w+|volte|повтор\w*|раз|строк\w*)\b"
    r"|重复|重複|繰り返|反复|遍|次|行|회|번|반복",
    re.IGNORECASE,
)

_PLAIN = re.compile(
    r"\b(repeat\w*|times|copies|over and over|again and again|forever|endless\w*|pad(ded|ding)?"
    r"|fill(ed)?|lyrics|mantra|chant|zero(es|s|ed)|wiederhol\w*|répèt\w*|répét\w*|fois|repite"
    r"|repet\w+|veces|vezes|ripet\w+|volte|повтор\w*|раз)\b|重复|重複|繰り返|反复|遍|回|번|반복",
    re.IGNORECASE,
)


class Asked:
    """How much repetition the request may have asked for. Read from the prompt at first need."""

    __slots__ = ("_count", "_cue", "_prompt", "_read")

    def __init__(self, request: RequestFacts = UNSEEN) -> None:
        self._prompt = request.prompt if request.known else ""
        self._read = False
        self._count = 0
        self._cue = False

    @property
    def known(self) -> bool:
        """Whether there is a prompt to go by."""
        return bool(self._prompt)

    @property
    def count(self) -> int:
        """The largest number from ten on that the request names; 0 if none."""
        self._ensure()
        return self._count

    @property
    def cue(self) -> bool:
        """Whether a word speaks of repeating, or of things that come in many alike."""
        self._ensure()
        return self._cue

    def covers(self, unit: str, copies: float, span: int) -> bool:
        """Whether ``copies`` of ``unit``, ``span`` characters, may be what was asked for.

        A number covers half as much again (models count badly), beside a cue or the unit itself
        four times; a cue without a number covers a page.
        """
        if not self._prompt:
            return False
        if not self.count:
            return self.cue and span <= PAGE
        return copies <= self._count * (4 if self._cue or self._names(unit) else 1.5) + 2

    def _names(self, unit: str) -> bool:
        bare = unit.strip()
        half = bare[: len(bare) // 2 + 1]
        return bool(bare) and (bare in self._prompt or (len(half) >= 4 and half in self._prompt))

    def covers_cut(self, unit: str, copies: float, span: int) -> bool:
        """The same where the token limit cut the text off: a wanted repetition mostly ends by
        itself, so a number alone, or a word like "line", does not cover it."""
        if not self._prompt:
            return False
        if self.count and (self._names(unit) or _PLAIN.search(self._prompt)):
            return copies <= 1.5 * self._count + 2
        if _ENDLESS.search(self._prompt):
            return True
        return span <= LINES and _PLAIN.search(self._prompt) is not None

    def mentions(self, pattern: re.Pattern[str]) -> bool:
        """Whether the prompt speaks of something."""
        return pattern.search(self._prompt) is not None

    def _ensure(self) -> None:
        if self._read or not self._prompt:
            return
        self._read = True
        count = 0
        for match in _NUMBER.finditer(self._prompt):
            value = int(re.sub(r"\D", "", match.group())[:7])
            if 10 <= value <= 1_000_000 and not 1900 <= value <= 2100:
                count = max(count, value)
        for word in _WORD.findall(self._prompt.lower()):
            count = max(count, _WORDS.get(word, 0))
        for sign, value in _HAN.items():
            if sign in self._prompt:
                count = max(count, value)
        self._count = count
        self._cue = _CUE.search(self._prompt) is not None


NOTHING_ASKED = Asked()
