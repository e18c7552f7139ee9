"""What is repeated, and how far healthy text repeats it: the kinds of unit and their limits."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

SEPARATORS = frozenset("-=_*#~─═━█▄▀.·•+%/\\|<>^,;:")
"""Characters that people and formats repeat on purpose: rules, leaders, empty cells."""

FILLERS = frozenset("AfFxX")
"""Letters that encodings repeat: zero bytes in base64, one bits in hex, placeholders."""


BASES = frozenset("ACGTUN")
"""Sequences of these repeat in nature."""


_ATOMS = frozenset(("null", "true", "false", "None", "True", "False", "NaN", "NULL"))
"""Values of missing or equal cells."""


class Unit(StrEnum):
    """What is repeated. Each kind has its own limits, because healthy text repeats it so far."""

    DIGIT = "digit"
    FILLER = "filler"
    LETTER = "letter"
    SEPARATOR = "separator"
    SYMBOL = "symbol"
    SIGNS = "signs"
    """Several characters without a letter or digit."""
    NUMBERS = "numbers"
    """Several characters with digits, without a letter; or bases alone."""
    SHORT = "short"
    SHORT_NUMBERED = "short_numbered"
    """Up to 16 characters with letters; with a digit or code symbol among them."""
    PHRASE = "phrase"
    PARAGRAPH = "paragraph"
    """Prose: words and spaces, up to 80 characters, or more."""
    RECORD = "record"
    LONG_RECORD = "long_record"
    """Anything else up to 80 characters, or more: lines of code, cells, markup."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A loop needs both: so many characters under the period, so many copies of the unit."""

    characters: int
    copies: float


@dataclass(frozen=True, slots=True)
class RepetitionLimits:
    """Limits by unit. ``mid`` while the text comes, ``end`` when it was cut off.

    Source: vLLM's and llama.cpp's loop guards stop at 4 copies, which flags tables and lists. The
    figures here stand above what the healthy exchanges in tests/corpus and 20 000 natural
    passages of a machine's documentation, sources, data files and catalogues do
    (bench/accuracy.py).
    """

    mid: dict[Unit, Limit]
    end: dict[Unit, Limit]

    whole_symbol: int = 16
    """The whole output is one letter or symbol that is no separator, or one digit up to where it
    was cut off: the shape of token id 0."""

    whole_short: Limit = Limit(64, 13)
    """The whole output is one unit of letters, 2 to 16 characters."""

    whole_cut: Limit = Limit(40, 5)
    whole_cut_long: Limit = Limit(150, 3.3)
    """The whole output is one unit, up to 16 characters or longer, and was cut off."""

    groups: tuple[Limit, Limit] = (Limit(150, 3.8), Limit(540, 2.2))
    """Two unlike lines by turns, or four and more, were cut off in a further round, whatever stood
    before: equal rows follow each other in tables and dumps, groups of unlike rows do not."""

    ended: float = 8.0
    """Factor on the copies where the text ended by itself, or came in a few large deltas."""

    patience: int = 128
    patience_lines: int = 320
    patience_led: int = 56
    """Deltas before a loop of several deltas a copy, from the first one on, is proof; of lines;
    and after a short line with a colon, which announces something."""

    rule: Limit = Limit(96, 96)
    """A plain letter or sign while the text comes: rules are drawn with o and x, too. (An engine
    that sends it token by token is caught sooner, by its deltas.)"""

    data: float = 6.0
    """Factor on all limits when data, not prose, stands before the loop: tables and dumps repeat
    as long as they are. ``data_end``: the same where the text was cut off."""

    data_end: float = 1.35


DEFAULT_LIMITS = RepetitionLimits(
    mid={
        Unit.DIGIT: Limit(2048, 2048),
        Unit.FILLER: Limit(512, 512),
        Unit.LETTER: Limit(64, 64),
        Unit.SEPARATOR: Limit(256, 256),
        Unit.SYMBOL: Limit(64, 64),
        Unit.SIGNS: Limit(640, 40),
        Unit.NUMBERS: Limit(1600, 100),
        Unit.SHORT: Limit(128, 13),
        Unit.SHORT_NUMBERED: Limit(640, 40),
        Unit.PHRASE: Limit(240, 6),
        Unit.PARAGRAPH: Limit(420, 4),
        Unit.RECORD: Limit(2400, 40),
        Unit.LONG_RECORD: Limit(3600, 12),
    },
    end={
        Unit.DIGIT: Limit(24, 24),
        Unit.FILLER: Limit(64, 64),
        Unit.LETTER: Limit(24, 24),
        Unit.SEPARATOR: Limit(160, 160),
        Unit.SYMBOL: Limit(40, 40),
        Unit.SIGNS: Limit(96, 6),
        Unit.NUMBERS: Limit(96, 8),
        Unit.SHORT: Limit(48, 5),
        Unit.SHORT_NUMBERED: Limit(72, 6),
        Unit.PHRASE: Limit(100, 3.3),
        Unit.PARAGRAPH: Limit(200, 2.9),
        Unit.RECORD: Limit(240, 8),
        Unit.LONG_RECORD: Limit(400, 4),
    },
)

ROUND = frozenset({10, 12, 15, 20, 24, 25, 30, 40, 50, 60, 75, 80, 100, 120, 150, 200, 250, 300,
                   365, 400, 500, 1000})  # fmt: skip
"""Numbers of copies that people ask for."""

CJK = 0x2E80
"""Code point; from here on a character says about as much as a word's half."""


def unit_kind(unit: str) -> Unit:
    """What kind of unit a period's characters are."""
    period = len(unit)
    if period == 1:
        if unit in SEPARATORS or unit.isspace():
            return Unit.SEPARATOR
        if unit.isdigit():
            return Unit.DIGIT
        if unit.isalpha():
            return Unit.FILLER if unit in FILLERS else Unit.LETTER
        return Unit.SYMBOL
    letters = sum(map(str.isalpha, unit))
    digits = sum(map(str.isdigit, unit))
    if not letters:
        return Unit.NUMBERS if digits else Unit.SIGNS
    if BASES.issuperset(unit):
        return Unit.NUMBERS
    code = sum(map(unit.count, '{}[]()<>=;/\\|_#$&*+`"@~%^')) + unit.count("\t")
    if period <= 16:
        cells = "," in unit and not _ATOMS.isdisjoint((unit + unit).replace(",", " ").split())
        odd = digits or code or cells or 2 * letters < period
        return Unit.SHORT_NUMBERED if odd else Unit.SHORT
    spaces = unit.count(" ") or max(unit) >= chr(CJK)
    prose = letters >= 0.6 * period and spaces and not code and digits <= 0.05 * period
    if period <= 80:
        return Unit.PHRASE if prose else Unit.RECORD
    return Unit.PARAGRAPH if prose else Unit.LONG_RECORD
