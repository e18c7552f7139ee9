"""Structured output that is not what it must be: JSON modes and tool calls."""

from __future__ import annotations

import json
import re
from typing import ClassVar

from extproc.detect.asked import UNSEEN
from extproc.detect.detector import Ending, Setting
from extproc.detect.finding import Finding, Weight
from extproc.detect.schema import broken_keyword
from extproc.wire import Channel, Event, OutputFormat, RequestFacts, Text, ToolCall

_NAME = re.compile(r"[A-Za-z0-9_.:/@ -]{1,128}")
_COMPLETE = frozenset({"stop", "tool_calls", "function_call", "tool_use", "end_turn", "eos_token"})
_FENCE = re.compile(r"\A\s*```(?:json)?\s*\n(.*?)\n?```\s*\Z", re.DOTALL)


class Structure:
    """``tool_name``: a name that no API accepts: control tokens, line breaks, nothing.
    ``tool_undeclared``: a well-formed name that the request does not declare (hint), or a declared
    one with something grown on it (proof).
    ``tool_arguments``: arguments that are no JSON though the call is reported complete.
    ``tool_missing``: the choice ended with a tool call, and none came.
    ``json``: JSON was asked for, the answer ended by itself, and is none (with a schema), or it
    begins as JSON and is none (without).
    ``schema``: JSON that breaks the request's schema (hint: not every engine enforces it all).
    Kept: LIMIT characters a part; a longer one is not judged. Source: reported tool-call and
    guided-decoding faults; honest truncation ends with "length" and is left alone.
    """

    __slots__ = ("_calls", "_lost", "_named", "_request", "_size", "_texts", "reads")

    name: ClassVar[str] = "structure"

    LIMIT = 12_288

    def __init__(self, request: RequestFacts = UNSEEN) -> None:
        self._request = request
        wants_json = request.format in (OutputFormat.JSON_OBJECT, OutputFormat.JSON_SCHEMA)
        self.reads = (
            (ToolCall, Channel.TOOL_ARGUMENTS, Channel.CONTENT)
            if wants_json
            else (ToolCall, Channel.TOOL_ARGUMENTS)
        )
        self._texts: dict[tuple[int, Channel, int], list[str]] = {}
        self._lost: set[tuple[int, Channel, int]] = set()
        self._size = 0
        self._named = 0
        self._calls: set[tuple[int, int]] = set()

    @classmethod
    def create(cls, setting: Setting) -> Structure:
        return cls(setting.request)

    def feed(self, event: Event) -> Finding | None:
        if type(event) is Text:
            self._keep(event)
        elif type(event) is ToolCall:
            if len(self._calls) < 64:
                self._calls.add((event.choice, event.part))
            return self._tool(event.name)
        return None

    def finish(self, ending: Ending) -> Finding | None:
        for choice, reason in ending.reasons.items():
            called = any(one == choice for one, _ in self._calls)
            argued = any(
                one == choice and channel is Channel.TOOL_ARGUMENTS
                for one, channel, _ in self._texts
            )
            if argued and not called and reason in _COMPLETE:
                return self._found("tool_name", Weight.PROOF, "arguments without a name")
            if reason in ("tool_calls", "function_call") and not called and not argued:
                return self._found("tool_missing", Weight.PROOF, "ended with a call, and none came")
        for (choice, channel, part), pieces in self._texts.items():
            if ending.reasons.get(choice) not in _COMPLETE or (choice, channel, part) in self._lost:
                continue
            text = "".join(pieces)
            finding = (
                self._arguments(text) if channel is Channel.TOOL_ARGUMENTS else self._answer(text)
            )
            if finding is not None:
                return finding
        return None

    def _keep(self, event: Text) -> None:
        key = (event.choice, event.channel, event.part)
        pieces = self._texts.get(key)
        if pieces is None:
            if len(self._texts) >= 16:
                return
            pieces = self._texts[key] = []
        self._size += len(event.text)
        if self._size > self.LIMIT:
            self._lost.add(key)
            pieces.clear()
            return
        pieces.append(event.text)
        if len(pieces) > 64:  # many small strings weigh more than their text
            pieces[:] = ["".join(pieces)]

    def _tool(self, name: str) -> Finding | None:
        declared = self._request.tools
        if self._named > 64 or name in declared:
            return None
        self._named += 1
        if not _NAME.fullmatch(name):
            return self._found("tool_name", Weight.PROOF, f"{len(name)} characters")
        if declared:
            grown = any(len(d) > 3 and d in name for d in declared)
            weight = Weight.PROOF if grown else Weight.HINT
            return self._found("tool_undeclared", weight, f"{len(declared)} declared")
        return None

    def _arguments(self, text: str) -> Finding | None:
        if not text.strip():
            return None
        try:
            value = json.loads(text, strict=False)
        except (json.JSONDecodeError, RecursionError, ValueError) as error:
            if "Extra data" in str(error) or text.lstrip()[:2] in ("{'", "['"):
                return self._found("tool_arguments", Weight.HINT, "JSON and more")
            return self._found("tool_arguments", Weight.PROOF, f"{len(text)} characters")
        if not isinstance(value, (dict, str)):
            return self._found("tool_arguments", Weight.HINT, type(value).__name__)
        return None

    def _answer(self, text: str) -> Finding | None:
        if match := _FENCE.match(text):
            text = match.group(1)
        begun = text.lstrip()[:1]
        if not begun:
            return None
        schema = self._request.schema
        try:
            value = json.loads(text, strict=False)
        except (json.JSONDecodeError, RecursionError, ValueError) as error:
            if begun not in ("{", "[") and schema is None:
                return None  # an engine that ignores the format
            more = "Extra data" in str(error)
            weight = Weight.HINT if more else Weight.PROOF
            return self._found("json", weight, f"{len(text)} characters")
        if schema is not None and (keyword := broken_keyword(schema, value)) is not None:
            return self._found("schema", Weight.HINT, keyword)
        return None

    def _found(self, reason: str, weight: Weight, shape: str) -> Finding:
        return Finding(self.name, reason, 1, 1, weight, shape)
