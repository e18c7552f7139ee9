"""One start-up log -> alarms and facts. The patterns are data: ``lines.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from extproc.gates.startup.values import Scalar, normal

MAX_LINE = 64 << 10
"""Characters of a line that are looked at; vLLM prints its whole configuration in one."""

MAX_ALARMS = 200
"""Different alarms that are kept."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

_VARYING = re.compile(
    r"""^.*?(?:[A-Z]+ \d\d-\d\d \d\d:\d\d:\d\d|\d\d:\d\d:\d\d[.,\d]*(?:\s*TP\d+)?\]?|
    ^\d+\.\d\d\.\d{3}\.\d{3}\s[A-Z]\s)|\(?\b(?:\w*Worker\w*|EngineCore\w*|APIServer)\b[^)]*\)|
    \bpid=\d+|0x[0-9a-f]+|\[?[\w/.-]+\.(?:py|cpp|cc|cu|mm):\d+\]?|\brank[= ]\d+|\bTP\d+\b""",
    re.VERBOSE,
)
_NUMBER = re.compile(r"\b\d+\b")


@dataclass(frozen=True, slots=True)
class Alarm:
    """A line that tells of a replaced operator or kernel. ``line`` counts from 1."""

    kind: str
    engine: str
    text: str
    line: int

    @property
    def key(self) -> str:
        """The text without what differs from start to start: times, processes, numbers."""
        return _NUMBER.sub("#", " ".join(_VARYING.sub(" ", self.text).split())).strip(" :]")


@dataclass(slots=True)
class StartupLog:
    """What a log tells. ``facts``: field -> value, as the engine last said it."""

    lines: int = 0
    alarms: list[Alarm] = field(default_factory=list)
    facts: dict[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fact:
    """A pattern for one field of the execution path."""

    field: str
    pattern: re.Pattern[str]
    value: str = ""
    prefix: str = ""
    join: bool = False


@cache
def data() -> dict[str, Any]:
    """``lines.toml``."""
    text = resources.files(__package__).joinpath("lines.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def _alarms() -> list[tuple[re.Pattern[str], str, str]]:
    return [
        (re.compile(entry["pattern"], re.IGNORECASE), entry["kind"], entry["engine"])
        for entry in data()["alarm"]
    ]


@cache
def _harmless() -> list[re.Pattern[str]]:
    return [re.compile(entry["pattern"], re.IGNORECASE) for entry in data()["harmless"]]


@cache
def facts() -> list[Fact]:
    """The patterns of the execution path."""
    return [
        Fact(
            entry["field"],
            re.compile(entry["pattern"], re.IGNORECASE),
            entry.get("value", ""),
            entry.get("prefix", ""),
            entry.get("join", False),
        )
        for entry in data()["fact"]
    ]


def read_log(lines: Iterable[str]) -> StartupLog:
    """Reads a log to its end. Equal alarms of several workers are one."""
    found = StartupLog()
    seen: set[str] = set()
    for number, raw in enumerate(lines, 1):
        found.lines = number
        line = _COLOUR.sub("", raw[:MAX_LINE]).strip()
        if not line:
            continue
        for fact in facts():
            _take(found.facts, fact, line)
        if len(found.alarms) < MAX_ALARMS and (alarm := alarm_in(line, number)) is not None:
            key = alarm.key
            if key not in seen:
                seen.add(key)
                found.alarms.append(alarm)
    return found


def alarm_in(line: str, number: int = 0) -> Alarm | None:
    """The alarm that a line gives, if it gives one."""
    if is_dump(line):
        return None
    for pattern, kind, engine in _alarms():
        if pattern.search(line):
            if kind == "fallback" and any(harmless.search(line) for harmless in _harmless()):
                return None
            return Alarm(kind, engine, line[:500], number)
    return None


def is_dump(line: str) -> bool:
    """Whether a line is a configuration printed whole: option names are no events."""
    return max(line.count("="), line.count("': "), line.count('": ')) >= 8 or any(
        mark in line for mark in ("ServerArgs(", "Namespace(", " with config: ", "non-default args")
    )


def _take(facts: dict[str, Scalar], fact: Fact, line: str) -> None:
    match = fact.pattern.search(line)
    if match is None:
        return
    text = fact.value or next((group for group in match.groups() if group), "")
    if text == "" or (text == "None" and fact.field != "quantization"):
        return
    value = normal(fact.field, fact.prefix + text)
    known = facts.get(fact.field)
    if fact.join and isinstance(known, str):
        value = ", ".join(sorted({*known.split(", "), str(value)}))
    facts[fact.field] = value
