"""Error objects, of every API -> Failure. The message is read for what it admits, never kept."""

from __future__ import annotations

from typing import Any

from extproc.wire.events import Cause, Failure

_ADMISSIONS = (
    ("not json compliant", Cause.NON_FINITE),  # json.dumps(allow_nan=False), in vLLM and others
    ("contains either `inf`, `nan`", Cause.NON_FINITE),  # torch.multinomial
    ("nan detected", Cause.NON_FINITE),
    ("nans in logits", Cause.NON_FINITE),
    ("non-finite", Cause.NON_FINITE),
    ("empty grammar stack", Cause.GRAMMAR),  # llama.cpp
    ("does not accept token", Cause.GRAMMAR),
    ("failed to advance fsm", Cause.GRAMMAR),  # vLLM
    ("cuda error", Cause.DEVICE),
    ("device-side assert", Cause.DEVICE),
    ("illegal memory access", Cause.DEVICE),
    ("hip error", Cause.DEVICE),
)

_MESSAGE = 2048
"""Characters of a message that are searched."""


def failure_in(document: dict[str, Any]) -> Failure | None:
    """The failure that ``document`` reports, or None when it is no error object.

    Layouts: ``{"error": {message, type, code}}`` (OpenAI, llama.cpp, Anthropic beside
    ``"type": "error"``), ``{"error": "...", "error_type": "..."}`` (TGI, Ollama),
    ``{"object": "error", message, type, code}`` (older vLLM and SGLang).
    """
    error = document.get("error")
    if not error:
        if document.get("object") != "error":
            return None
        error = document
    if type(error) is dict:
        code = error.get("type") or error.get("code")
        if code == "error":
            code = error.get("code")
        message = error.get("message")
    else:
        code = document.get("error_type") or document.get("type") or document.get("code")
        message = error
    return Failure(_word(code), _cause(message))


def _word(code: Any) -> str:
    """A code is one word; anything else could be quoted text."""
    if type(code) in (str, int):
        word = str(code) if type(code) is str or abs(code) < 1 << 53 else ""
        if word and len(word) <= 40 and word.isascii() and word.replace("_", "a").isalnum():
            return word
    return "error"


def _cause(message: Any) -> Cause:
    if type(message) is str:
        lowered = message[:_MESSAGE].lower()
        for phrase, cause in _ADMISSIONS:
            if phrase in lowered:
                return cause
    return Cause.UNKNOWN
