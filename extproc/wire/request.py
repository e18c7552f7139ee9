"""What a request asked for, as far as it bears on judging the answer.

Everything is optional: the body is often not visible to the filter, and what is visible may be
anything. Nothing here raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

PROMPT_LIMIT = 16_384
"""Characters of the prompt that are kept: its first and its last half of this."""

_MAX_ITEMS = 4096
"""Messages, parts, inputs, documents or tools looked at; a request with more is cut there."""

_MAX_DEPTH = 8
"""Nesting of content followed; APIs nest three deep."""

_GRAMMARS = (
    *("grammar", "ebnf", "regex", "guided_regex", "guided_grammar", "guided_choice"),
    *("structural_tag", "choice", "lark_grammar"),
)


class OutputFormat(StrEnum):
    """What the request binds the output to."""

    TEXT = "text"
    JSON_OBJECT = "json_object"
    """Any JSON."""

    JSON_SCHEMA = "json_schema"
    """JSON of a schema, which ``RequestFacts.schema`` holds if it was given inline."""

    GRAMMAR = "grammar"
    """Guided decoding by a regular expression, choice or grammar."""


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """A request's facts. With ``known`` False no body was seen, and all else is a default."""

    method: str = ""
    path: str = ""
    """Without the query."""

    known: bool = False
    model: str = ""
    prompt: str = ""
    """System, user and tool text joined by newlines; a long one without its middle."""

    prefill: str = ""
    """Text of a last message in the assistant's name, which the answer may continue."""

    max_tokens: int | None = None
    stream: bool | None = None
    format: OutputFormat = OutputFormat.TEXT
    schema: dict[str, Any] | None = None
    """The JSON schema of the output, when the request holds it inline."""

    tools: tuple[str, ...] = ()
    """Names of the declared functions."""

    inputs: int = 0
    """Texts to embed; 0 when none were recognised."""

    distinct_inputs: int = 0
    """How many of the inputs differ from each other."""

    documents: int = 0
    """Documents to rank."""

    distinct_documents: int = 0
    """How many of the documents differ from each other."""

    echo: bool = False
    """The prompt comes back with the completion, and its first token has no log probability."""

    logprobs: bool = False
    n: int = 1
    """Choices asked for."""

    temperature: float | None = None
    ignore_eos: bool = False
    """The engine was told to go on past its end (load tests): what follows may well be garbage."""

    @classmethod
    def parse(cls, method: str, path: str, body: object = None) -> RequestFacts:
        """Facts of a request whose JSON body is ``body``; None when it was not seen."""
        path = path.partition("?")[0]
        if type(body) is not dict:
            return cls(method, path, known=body is not None)
        # Native APIs keep sampling settings in an object of their own (Ollama, TGI, Cohere).
        settings: dict[str, Any] = {}
        for key in ("options", "parameters", "sampling_params"):
            if type(body.get(key)) is dict:
                settings.update(body[key])
        settings.update(body)
        asked, schema = _format(settings)
        inputs = _inputs(body)
        documents = _items(body.get("documents"), body.get("texts"), body.get("passages"))
        logprobs = settings.get("logprobs")
        n = _integer(settings.get("n"))
        return cls(
            method=method,
            path=path,
            known=True,
            model=_string(body.get("model"))[:256],
            prompt=_prompt(body),
            prefill=_prefill(body),
            max_tokens=_max_tokens(settings),
            stream=body["stream"] if type(body.get("stream")) is bool else None,
            format=asked,
            schema=schema,
            tools=_tools(body),
            inputs=len(inputs),
            distinct_inputs=_different(inputs),
            documents=len(documents),
            distinct_documents=_different(documents),
            echo=settings.get("echo") is True or settings.get("return_full_text") is True,
            logprobs=bool(logprobs) or logprobs == 0 or bool(settings.get("n_probs")),
            n=max(1, n) if n is not None else 1,
            temperature=_number(settings.get("temperature")),
            ignore_eos=settings.get("ignore_eos") is True,
        )


def _string(value: Any) -> str:
    return value if type(value) is str else ""


def _integer(value: Any) -> int | None:
    return value if type(value) is int else None


def _number(value: Any) -> float | None:
    if type(value) is float:
        return value
    return float(value) if type(value) is int and abs(value) < 1 << 53 else None


def _list(value: Any) -> list[Any]:
    return value[:_MAX_ITEMS] if type(value) is list else []


def _dict(value: Any) -> dict[str, Any]:
    return value if type(value) is dict else {}


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    """The texts in a content field: a string, parts with ``text``, or messages with ``content``."""
    if type(value) is str:
        yield value
    elif depth < _MAX_DEPTH:
        if type(value) is list:
            for item in value[:_MAX_ITEMS]:
                yield from _texts(item, depth + 1)
        elif type(value) is dict:
            for key in ("text", "content", "input", "output"):
                yield from _texts(value.get(key), depth + 1)


def _own(message: Any) -> bool:
    return type(message) is dict and message.get("role") in ("assistant", "model")


def _conversation(body: dict[str, Any]) -> list[Any]:
    for key in ("messages", "input", "contents"):
        if type(body.get(key)) is list:
            return _list(body[key])
    return []


def _prompt(body: dict[str, Any]) -> str:
    pieces: list[str] = []
    for key in ("system", "instructions", "prompt", "text_input", "suffix", "query", "inputs"):
        pieces.extend(_texts(body.get(key)))
    if type(body.get("input")) is str:
        pieces.append(body["input"])
    for message in _conversation(body):
        if not _own(message):
            pieces.extend(_texts(message))
    prompt = "\n".join(pieces)
    if len(prompt) > PROMPT_LIMIT:
        half = PROMPT_LIMIT // 2
        prompt = f"{prompt[:half]}\n{prompt[-half:]}"
    return prompt


def _prefill(body: dict[str, Any]) -> str:
    messages = _conversation(body)
    if messages and _own(messages[-1]):
        return "".join(_texts(messages[-1]))[-PROMPT_LIMIT:]
    return ""


def _max_tokens(settings: dict[str, Any]) -> int | None:
    for key in (
        *("max_completion_tokens", "max_tokens", "max_output_tokens", "max_new_tokens"),
        *("n_predict", "num_predict", "max_tokens_to_sample"),
    ):
        value = _integer(settings.get(key))
        if value is not None and value >= 0:  # -1 means no limit
            return value
    return None


def _format(settings: dict[str, Any]) -> tuple[OutputFormat, dict[str, Any] | None]:
    """Every API's own way to ask for JSON, the most binding first."""
    asked = _dict(settings.get("response_format")) or _dict(
        _dict(settings.get("text")).get("format")
    )
    kind = asked.get("type")
    if kind in ("json_schema", "json"):
        named = _dict(asked.get("json_schema"))
        for place in (named.get("schema"), asked.get("schema"), asked.get("value")):
            if type(place) is dict:
                return OutputFormat.JSON_SCHEMA, place
        return OutputFormat.JSON_SCHEMA, named if "properties" in named else None
    if kind == "json_object":
        schema = asked.get("schema")  # llama.cpp takes one here
        if type(schema) is dict:
            return OutputFormat.JSON_SCHEMA, schema
        return OutputFormat.JSON_OBJECT, None
    structured = _dict(settings.get("structured_outputs")) or _dict(settings.get("guided_decoding"))
    for place in (
        settings.get("json_schema"),  # llama.cpp, SGLang
        settings.get("guided_json"),  # vLLM, older
        structured.get("json"),
        _dict(settings.get("output_format")).get("schema"),  # Anthropic
        settings.get("format"),  # Ollama
    ):
        if type(place) is dict and place:
            return OutputFormat.JSON_SCHEMA, place
    if settings.get("format") == "json" or structured.get("json_object") is True:
        return OutputFormat.JSON_OBJECT, None
    if settings.get("json_schema") or settings.get("guided_json") or structured.get("json"):
        return OutputFormat.JSON_SCHEMA, None  # a schema in a string
    grammar = settings.get("grammar")
    if type(grammar) is dict and grammar.get("type") in ("json", "json_schema"):  # TGI
        value = grammar.get("value")
        return OutputFormat.JSON_SCHEMA, value if type(value) is dict else None
    if kind in ("regex", "grammar", "structural_tag") or structured:
        return OutputFormat.GRAMMAR, None
    if any(settings.get(key) for key in _GRAMMARS):
        return OutputFormat.GRAMMAR, None
    return OutputFormat.TEXT, None


def _tools(body: dict[str, Any]) -> tuple[str, ...]:
    names: list[str] = []
    for tool in [*_list(body.get("tools")), *_list(body.get("functions"))]:
        fields = _dict(tool)
        # chat: {"type": "function", "function": {"name"}}; Responses, Anthropic: {"name"}
        name = _string(_dict(fields.get("function")).get("name")) or _string(fields.get("name"))
        if name:
            names.append(name[:256])
    return tuple(names)


def _inputs(body: dict[str, Any]) -> list[Any]:
    for key in ("input", "inputs", "content", "prompt", "texts"):
        value = body.get(key)
        if type(value) is str and value:
            return [value]
        if type(value) is list and value:
            if all(type(item) is int for item in value):
                return [value]  # one input, as token ids
            return value[:_MAX_ITEMS]
    return []


def _different(items: list[Any]) -> int:
    try:
        return len({repr(item) for item in items})
    except RecursionError:  # nothing that is embedded or ranked nests so deeply
        return len(items)


def _items(*candidates: Any) -> list[Any]:
    for value in candidates:
        if type(value) is list:
            return value[:_MAX_ITEMS]
    return []
