"""Structured output: JSON by a schema, and tool calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from jsonschema import Draft202012Validator

from extproc.detect import Weight
from extproc.probes.discovery import TOOL, Support
from extproc.probes.kinds.base import (
    Answer,
    Judgement,
    Probe,
    Request,
    Room,
    Skip,
    chat_request,
    failed,
    passed,
)
from extproc.probes.reply import Call, Reply

CITY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 1, "maxLength": 24},
        "country": {"type": "string", "minLength": 1, "maxLength": 24},
        "inhabitants": {"type": "integer", "minimum": 0, "maximum": 99999999},
        "capital": {"type": "boolean"},
    },
    "required": ["city", "country", "inhabitants", "capital"],
    "additionalProperties": False,
}


class Forced(Probe):
    """A probe that forces a format on the model. A server may not know of formats, and answer in
    prose; a small model may not know of this one, and go round in it: broken structure and loops
    prove nothing by themselves here. Other kinds see a sick engine's."""

    def judge(self, room: Room, answers: Sequence[Answer]) -> Judgement:
        found = super().judge(room, answers)
        proofs = {each.detector for each in found.findings if each.weight is Weight.PROOF}
        return replace(found, proof=found.proof and not proofs <= {"structure", "repetition"})


class JsonSchema(Forced):
    """The answer parses, and keeps the schema that the request gives."""

    name: ClassVar[str] = "json"
    title: ClassVar[str] = "JSON schema"

    def requests(self, room: Room) -> list[Request]:
        named = {"name": "city", "strict": True, "schema": CITY}
        asked = "Describe the city of Paris as one JSON object with the fields city, country, "
        asked += "inhabitants and capital."
        kind = {"type": "json_schema", "json_schema": named}
        return [chat_request(room, asked, 192, response_format=kind)]

    def check(self, room: Room, replies: list[Reply]) -> Judgement:
        wrong = kept(replies[0].text, CITY)
        if wrong:
            if replies[0].finish == "length":
                wrong += " (cut at max_tokens)"
            return failed(self.name, "schema", wrong)
        return passed()


class ToolCall(Forced):
    """A question that needs a function gets a call of it, whose arguments keep its schema; one
    that needs two gets calls that all do."""

    name: ClassVar[str] = "tools"
    title: ClassVar[str] = "tool call"

    def requests(self, room: Room) -> list[Request]:
        if room.capabilities.tools is Support.NO:
            raise Skip("the server does not offer tool calls with this model")
        one = chat_request(
            room, "What is the weather in Paris?", 128, tools=[TOOL], tool_choice="required"
        )
        if room.capabilities.parallel_tools is Support.NO:
            return [one]
        two = chat_request(
            room,
            "What is the weather in Paris, and what is it in Rome? Ask for both at once.",
            256,
            tools=[TOOL],
            tool_choice="required",
            parallel_tool_calls=True,
        )
        return [one, two]

    def check(self, room: Room, replies: list[Reply]) -> Judgement:
        for reply in replies:
            if not reply.calls:
                return failed(self.name, "no_call", "text where a tool call was required")
            for place, call in enumerate(reply.calls):
                if wrong := _call(call):
                    return failed(self.name, "arguments", f"call {place + 1}: {wrong}")
        several = max(len(reply.calls) for reply in replies)
        return passed(f"{several} calls at once" if several > 1 else "one call at a time")


def _call(call: Call) -> str:
    function = TOOL["function"]
    if call.name != function["name"]:
        return "names a function that was not offered"
    return kept(call.arguments, function["parameters"])


def kept(text: str, schema: dict[str, Any]) -> str:
    """What keeps ``text`` from being JSON by ``schema``, "" if nothing does. Quotes none of it."""
    try:
        value = json.loads(text)
    except ValueError:
        return "is no JSON"
    for error in Draft202012Validator(schema).iter_errors(value):
        place = ".".join(str(part) for part in error.absolute_path) or "the object"
        return f"breaks its schema: {error.validator} of {place}"
    return ""
