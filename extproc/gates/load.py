"""Gate 1: the server is ready, and has its weights, its tokenizer and its quantization.

It proves that the server can answer, not that it answers well.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from extproc.gates.conditions import Condition
from extproc.gates.endpoint import Endpoint, unanswered
from extproc.gates.outcome import Check, failed, passed, skipped
from extproc.gates.path import fallback_check
from extproc.gates.plan import Gate, Planned
from extproc.gates.settings import ModelLoad
from extproc.gates.startup import StartupLog
from extproc.gates.store import Approval
from extproc.probes import (
    BadStatus,
    NotJson,
    ProbeError,
    Readiness,
    count_tokens,
    readiness,
)

PAUSE = 0.5
"""Seconds between two questions to a server that starts."""

ANSWER = 10.0
"""Seconds that one such question may take."""

_REFUSES_US = re.compile(r": status 40[13]\b")


def load_gate(
    settings: ModelLoad,
    candidate: Endpoint,
    log: StartupLog | None,
    log_source: str,
    log_digest: str,
    approval: Approval | None,
) -> Gate:
    """The gate for one server."""
    load = _Load(settings, candidate, log)
    made = {
        "ready_endpoint": load.ready,
        "weights_load": load.weights,
        "tokenizer_load": load.tokenizer,
        "quant_config_parse": load.quantization,
    }
    checks = [Planned(name, run) for name, run in made.items() if name in settings.checks]

    async def startup_log(_: tuple[Check, ...]) -> Check:
        return fallback_check(log, approval, log_source)

    explained = list(approval.record.alarms) if approval is not None else []
    checks.append(Planned("startup_log", startup_log, {"log": log_digest, "explained": explained}))
    return Gate(
        1,
        "gate_1_model_load",
        tuple(checks),
        {
            **candidate.identity,
            "timeout": settings.timeout_sec,
            "path": str(candidate.service.model_path or ""),
        },
        needs_server=False,
    )


class _Load:
    def __init__(self, settings: ModelLoad, candidate: Endpoint, log: StartupLog | None) -> None:
        self._settings = settings
        self._candidate = candidate
        self._log = log
        self._folder = candidate.service.model_path
        self._models: tuple[str, ...] = ()

    async def ready(self, _: tuple[Check, ...]) -> Check:
        name, seconds = "ready_endpoint", self._settings.timeout_sec
        clock = asyncio.get_running_loop().time
        began = clock()
        last = Readiness(False, reason="it did not answer")
        try:
            client = await self._candidate.client(min(ANSWER, seconds))
            async with asyncio.timeout(seconds):
                while True:
                    last = await readiness(client)
                    if last.ready or last.models or _REFUSES_US.search(last.reason):
                        break
                    await asyncio.sleep(PAUSE)
        except TimeoutError:
            pass
        except ProbeError as error:
            return unanswered(name, "candidate", error, Condition.MODEL_LOAD)
        if not last.models:
            waited = clock() - began
            return failed(
                name,
                f"not ready after {waited:.1f} s: {last.reason}",
                Condition.MODEL_LOAD,
                threshold=seconds,
                answered=False,
            )
        self._models = last.models
        return passed(
            name,
            f"ready after {clock() - began:.1f} s; serves {', '.join(last.models[:5])}",
            threshold=seconds,
        )

    async def weights(self, before: tuple[Check, ...]) -> Check:
        name = "weights_load"
        if (gone := _not_ready(name, before)) is not None:
            return gone
        if self._folder is not None and (problem := missing_weights(self._folder)):
            return failed(name, problem, Condition.MODEL_LOAD)
        try:
            client = await self._candidate.client()
            models = self._models or (await readiness(client)).models
            wanted = self._candidate.service.model
            if not (wanted or models):
                return failed(name, "the server lists no model", Condition.MODEL_LOAD)
            if not wanted or wanted in models:
                return passed(name, f"the server lists {wanted or models[0]}")
            # Servers of a single model often answer to any name.
            await client.chat("Hello", max_tokens=1, temperature=0)
        except ProbeError as error:
            return unanswered(name, "candidate", error, Condition.MODEL_LOAD)
        return passed(
            name,
            f"the server lists {', '.join(models[:5]) or 'no model'}, and answers to {wanted!r}",
        )

    async def tokenizer(self, before: tuple[Check, ...]) -> Check:
        name = "tokenizer_load"
        if (gone := _not_ready(name, before)) is not None:
            return gone
        if self._folder is not None:
            for file in ("tokenizer.json", "tokenizer_config.json"):
                if (problem := _unreadable(self._folder / file)) is not None:
                    return failed(name, problem, Condition.MODEL_LOAD)
        try:
            client = await self._candidate.client()
            tokens = await count_tokens(client, "The quick brown fox")
            if tokens:
                return passed(name, f"/tokenize splits four words into {tokens} tokens")
            reply = await client.chat("Hello", max_tokens=1, temperature=0)
        except (BadStatus, NotJson) as error:
            # What it answers is the other gates' business.
            return skipped(name, f"the server has no /tokenize, and counts no tokens: {error}")
        except ProbeError as error:
            return unanswered(name, "candidate", error, Condition.MODEL_LOAD)
        if reply.usage.prompt > 0:
            return passed(name, f"a short prompt is {reply.usage.prompt} tokens by its usage")
        return skipped(name, "the server has no /tokenize and counts no tokens")

    async def quantization(self, before: tuple[Check, ...]) -> Check:
        name = "quant_config_parse"
        if (gone := _not_ready(name, before)) is not None:
            return gone
        if self._folder is not None:
            try:
                return passed(name, quantization_of(self._folder))
            except ValueError as error:
                return failed(name, str(error), Condition.MODEL_LOAD)
        try:
            said = await self._candidate.quantization()
        except ProbeError as error:
            return unanswered(name, "candidate", error, Condition.MODEL_LOAD)
        if said:
            return passed(name, f"the server says {said}")
        if self._log is not None and (fact := self._log.facts.get("quantization")):
            quantized = "that the weights are not quantized" if fact == "none" else fact
            return passed(name, f"the start-up log says {quantized}")
        return skipped(
            name, "the server does not tell; service.under_test.model_path or the log would"
        )


def _not_ready(name: str, before: tuple[Check, ...]) -> Check | None:
    if any(check.name == "ready_endpoint" and check.status == "failed" for check in before):
        return skipped(name, "not run: the server is not ready")
    return None


def missing_weights(folder: Path) -> str:
    """What is wrong with the weight files of a model folder, "" if nothing."""
    if not folder.is_dir():
        return f"{folder}: is no folder; service.under_test.model_path must be the model's"
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        if (problem := _unreadable(index)) is not None:
            return problem
        content = json.loads(index.read_text())
        mapped = content.get("weight_map") if isinstance(content, dict) else None
        if not isinstance(mapped, dict):
            return f"{index}: has no weight_map"
        absent = sorted({str(n) for n in mapped.values() if not (folder / str(n)).is_file()})
        if absent:
            return f"{index}: names {len(absent)} files that are not there, {absent[0]} first"
        return ""
    kinds = ("*.safetensors", "*.gguf", "*.bin", "*.engine")
    if not any(any(folder.glob(kind)) for kind in kinds):
        return f"{folder}: holds no weights (safetensors, gguf, bin, engine)"
    return ""


def quantization_of(folder: Path) -> str:
    """What a model folder says of its quantization. Raises ValueError when it cannot be read."""
    files = ("config.json", "hf_quant_config.json", "quantize_config.json")
    found: list[str] = []
    for file in files:
        path = folder / file
        if not path.is_file():
            continue
        if (problem := _unreadable(path)) is not None:
            raise ValueError(problem)
        content: Any = json.loads(path.read_text())
        if not isinstance(content, dict):
            raise ValueError(f"{path}: holds no object")
        found += _methods(content, file)
    if not any((folder / file).is_file() for file in files):
        raise ValueError(f"{folder}: has no config.json")
    return "; ".join(found) or "config.json is read; the weights are not quantized"


def _methods(content: Mapping[str, Any], file: str) -> list[str]:
    if file == "config.json":
        quantization = content.get("quantization_config")
        if quantization is None:
            return []
        if not isinstance(quantization, dict) or not quantization.get("quant_method"):
            raise ValueError("config.json: quantization_config names no quant_method")
        return [f"config.json: {quantization['quant_method']}"]
    if file == "hf_quant_config.json":
        inner = content.get("quantization")
        if not isinstance(inner, dict) or not inner.get("quant_algo"):
            raise ValueError("hf_quant_config.json: quantization names no quant_algo")
        cache = inner.get("kv_cache_quant_algo")
        return [f"{file}: {inner['quant_algo']}" + (f", KV cache {cache}" if cache else "")]
    return [f"{file}: {content.get('bits', '?')} bits"]


def _unreadable(path: Path) -> str | None:
    """What is wrong with a JSON file; one that is not there is fine."""
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{path}: cannot be read: {error.strerror or error}"
    except (ValueError, RecursionError):
        return f"{path}: is no JSON"
    return None
