"""Whether a server is ready, and what it offers. Asked of the server, never guessed from a name.

A sick engine may answer these questions with its own illness (a NaN becomes a 400 or a 500): what
is not certain stays ``unknown``, and a probe finds out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from extproc.probes.client import Client
from extproc.probes.errors import BadStatus, NotJson, ProbeError
from extproc.probes.reply import Reply

REQUESTS = 6
"""Generating requests that ``discover`` sends at most."""

TOKENS = 1024
"""Prompt and completion tokens of all of them together, at most: short prompts, one token each."""


class Support(StrEnum):
    """Whether a server offers something."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Way(StrEnum):
    """A way to log probabilities."""

    ECHO = "completions echo"
    """``/v1/completions`` with ``echo`` and ``logprobs``: of the prompt and what follows."""

    PROMPT = "prompt_logprobs"
    """``/v1/completions`` with ``prompt_logprobs`` (vLLM, SGLang): of the prompt."""

    COMPLETION = "completions logprobs"
    """``/v1/completions`` with ``logprobs``: of what is generated."""

    CHAT = "chat logprobs"
    """``/v1/chat/completions`` with ``logprobs``: of what is generated."""

    NATIVE = "llama.cpp n_probs"
    """llama.cpp's ``/completion`` with ``n_probs``: of what is generated."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What one server offers. ``engine``: "vllm", "llama.cpp", "sglang", ... or "".

    ``max_context``: tokens of prompt and answer together, None where nobody says;
    ``context_source``: who said it. ``counters``: whether ``/metrics`` has vLLM's
    ``corrupted_requests_total``.
    """

    model: str = ""
    engine: str = ""
    version: str = ""
    max_context: int | None = None
    context_source: str = ""
    ways: Mapping[Way, Support] = field(default_factory=dict)
    embeddings: Support = Support.UNKNOWN
    tools: Support = Support.UNKNOWN
    parallel_tools: Support = Support.UNKNOWN
    tokenize: bool = False
    counters: bool = False

    @property
    def way(self) -> Way | None:
        """The best way to log probabilities that is known to work."""
        return next((way for way in Way if self.ways.get(way) is Support.YES), None)

    def offers(self, way: Way) -> bool:
        """Whether a way is known to work."""
        return self.ways.get(way) is Support.YES


@dataclass(frozen=True, slots=True)
class Readiness:
    """``health``: the status of ``/health``, 404 where there is none. ``reason``: why not ready."""

    ready: bool
    models: tuple[str, ...] = ()
    health: int = 0
    reason: str = ""


async def readiness(client: Client) -> Readiness:
    """Whether the server takes requests now: ``/health`` and ``/v1/models``. Never raises."""
    health = 200
    try:
        await client.get_text("/health")
    except BadStatus as error:
        health = error.status
        if health not in (404, 405):  # gateways have none
            return Readiness(False, (), health, str(error))
    except ProbeError as error:
        return Readiness(False, (), 0, str(error))
    try:
        document = await client.get_json("/v1/models")
    except ProbeError as error:
        return Readiness(False, (), health, str(error))
    models = tuple(entry["id"] for entry in _models(document))
    wanted = client.target.model
    if not models:
        return Readiness(False, (), health, f"{client.target.root}/v1/models lists no model")
    if wanted and wanted not in models:
        names = ", ".join(models[:5])
        return Readiness(False, models, health, f"serves {names}; {wanted!r} is not among them")
    return Readiness(True, models, health)


async def discover(client: Client) -> Capabilities:
    """What the server offers. Raises ProbeError only when not even its models can be listed."""
    models = await client.get_json("/v1/models")
    model = await client.model()
    entries = _models(models)
    entry = next((each for each in entries if each["id"] == model), entries[0] if entries else {})
    props = await _quietly(client, "/props")
    version = await _quietly(client, "/version")
    engine = _engine(entry, props)
    context, source = _context(entry, props)
    generating = await _ways(client, engine)
    tools, parallel = await _tools(client, props)
    return Capabilities(
        model=model,
        engine=engine,
        version=_text(version, "version") or _text(props, "build_info"),
        max_context=context,
        context_source=source,
        ways=generating,
        embeddings=await _embeddings(client),
        tools=tools,
        parallel_tools=parallel,
        tokenize=await count_tokens(client, "a") is not None,
        counters=await corrupted_requests(client) is not None,
    )


async def fingerprint(client: Client) -> str:
    """What the server says of itself, in one text that changes when it does: models, version,
    build, quantization. Makes nothing compute. Raises ProbeError when it does not answer."""
    models = await client.get_json("/v1/models")
    props, version = await _quietly(client, "/props"), await _quietly(client, "/version")
    said = [
        (entry["id"], entry.get("max_model_len"), entry.get("meta")) for entry in _models(models)
    ]
    names = ("build_info", "model_ftype", "model_path", "chat_template")
    return repr((said, _text(version, "version"), [_text(props, name) for name in names]))


async def count_tokens(client: Client, text: str) -> int | None:
    """Tokens of ``text`` by the server's own tokenizer, None where it does not offer it."""
    try:
        # vLLM and SGLang read "prompt", llama.cpp "content".
        content = {"model": await client.model(), "prompt": text, "content": text}
        document = await client.post_json("/tokenize", content)
    except ProbeError:
        return None
    if isinstance(document, dict):
        if type(document.get("count")) is int:
            return int(document["count"])
        if isinstance(document.get("tokens"), list):
            return len(document["tokens"])
    return None


_CORRUPTED = re.compile(
    r"^vllm:corrupted_requests_total(?:\{[^}\n]*\})? ([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)$",
    re.M,
)


async def corrupted_requests(client: Client) -> float | None:
    """vLLM's own count of requests with NaN in their logits, None where it is not exported.

    vLLM counts with ``VLLM_COMPUTE_NANS_IN_LOGITS=1`` alone, and shows 0 otherwise.
    """
    try:
        found = _CORRUPTED.findall(await client.get_text("/metrics"))
    except ProbeError:
        return None
    return sum(float(value) for value in found) if found else None


_TOO_LONG = (
    re.compile(r"maximum context length is (\d+)"),  # vLLM, OpenAI
    re.compile(r"available context size \((\d+)"),  # llama.cpp
    re.compile(r"max_model_len[^\d]{0,20}(\d+)"),
    re.compile(r"context length[^\d]{0,40}\((\d+)"),  # SGLang
    re.compile(r"current batch size: (\d+)"),  # llama.cpp's embeddings
    re.compile(r"`?inputs`? must have less than (\d+)"),  # TGI
)


def context_in(message: str) -> int | None:
    """The context length that an error message names, None if it names none."""
    for pattern in _TOO_LONG:
        if (found := pattern.search(message)) is not None:
            return int(found[1])
    return None


def unsupported(error: BadStatus) -> bool:
    """Whether a refusal says that the server does not offer the thing at all."""
    if error.reply is not None and error.reply.corrupt:
        return False
    if error.status in (404, 405, 501):
        return True
    said = error.message.lower()
    words = ("not support", "unsupported", "does not", "not enabled", "requires --", "disabled")
    return error.status in (400, 403, 422, 500) and any(word in said for word in words)


async def _quietly(client: Client, path: str) -> Any:
    try:
        return await client.get_json(path)
    except ProbeError:
        return None


def _models(document: Any) -> list[dict[str, Any]]:
    listed = document.get("data") if isinstance(document, dict) else None
    return [
        entry
        for entry in (listed if isinstance(listed, list) else [])
        if isinstance(entry, dict) and isinstance(entry.get("id"), str)
    ]


def _text(document: Any, name: str) -> str:
    value = document.get(name) if isinstance(document, dict) else None
    return value[:128] if isinstance(value, str) else ""


def _engine(entry: Mapping[str, Any], props: Any) -> str:
    owner = str(entry.get("owned_by", "")).lower()
    names = {"llamacpp": "llama.cpp", "llama.cpp": "llama.cpp", "vllm": "vllm", "sglang": "sglang"}
    if owner in names:
        return names[owner]
    return "llama.cpp" if isinstance(props, dict) and "total_slots" in props else ""


def _context(entry: Mapping[str, Any], props: Any) -> tuple[int | None, str]:
    for name in ("max_model_len", "context_length", "max_context_length"):
        if type(entry.get(name)) is int and entry[name] > 0:
            return entry[name], f"/v1/models {name}"
    settings = props.get("default_generation_settings") if isinstance(props, dict) else None
    found = settings.get("n_ctx") if isinstance(settings, dict) else None
    if type(found) is int and found > 0:
        return found, "/props n_ctx"
    return None, ""


async def _ways(client: Client, engine: str) -> dict[Way, Support]:
    one: dict[str, Any] = {"max_tokens": 1, "temperature": 0}
    found: dict[Way, Support] = {}
    reply = await _tried(client.complete("Hello there", echo=True, logprobs=1, **one))
    if isinstance(reply, Reply):
        found[Way.ECHO] = _yes(reply.prompt_logprobs)
        found[Way.COMPLETION] = _yes(reply.logprobs)
    else:
        found[Way.ECHO] = found[Way.COMPLETION] = reply
    reply = await _tried(client.complete("Hello there", prompt_logprobs=1, **one))
    found[Way.PROMPT] = _yes(reply.prompt_logprobs) if isinstance(reply, Reply) else reply
    reply = await _tried(client.chat("Hello", logprobs=True, top_logprobs=2, **one))
    found[Way.CHAT] = _yes(reply.logprobs) if isinstance(reply, Reply) else reply
    found[Way.NATIVE] = Support.NO
    if engine == "llama.cpp":
        body = {"prompt": "Hello there", "n_predict": 1, "temperature": 0, "n_probs": 2}
        reply = await _tried(client.ask("/completion", body))
        found[Way.NATIVE] = _yes(reply.logprobs) if isinstance(reply, Reply) else reply
    return found


async def _embeddings(client: Client) -> Support:
    reply = await _tried(client.embed(["Hello"]))
    return _yes(reply.vectors) if isinstance(reply, Reply) else reply


TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The present weather in one city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 40}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
"""The function that tool probes offer."""


async def _tools(client: Client, props: Any) -> tuple[Support, Support]:
    caps = props.get("chat_template_caps") if isinstance(props, dict) else None
    if isinstance(caps, dict):  # llama.cpp knows from the chat template, and ignores tools without
        return _said(caps.get("supports_tools")), _said(caps.get("supports_parallel_tool_calls"))
    reply = await _tried(
        client.chat(
            "What is the weather in Oslo?",
            tools=[TOOL],
            tool_choice="required",
            max_tokens=1,
            temperature=0,
        )
    )
    # One token is no call yet: that the request is taken is all it shows.
    return (Support.YES if isinstance(reply, Reply) else reply), Support.UNKNOWN


async def _tried(call: Any) -> Reply | Support:
    """The reply, or what its failure says about the server's abilities."""
    try:
        reply: Reply = await call
    except BadStatus as error:
        return Support.NO if unsupported(error) else Support.UNKNOWN
    except NotJson:
        return Support.UNKNOWN
    except ProbeError:
        return Support.UNKNOWN
    return reply


def _said(value: object) -> Support:
    return _yes(value) if isinstance(value, bool) else Support.UNKNOWN


def _yes(found: object) -> Support:
    return Support.YES if found else Support.NO
