"""Log probabilities, from whatever layout an engine writes them in to one.

=====================  ===========================================================================
``prompt_logprobs``    vLLM: ``[null, {"<id>": {"logprob", "rank", "decoded_token"}}, ...]``, in the
                       choice (completions) or beside the choices (chat)
lists                  completions: ``{"tokens", "token_logprobs", "top_logprobs": [{token: lp}]}``
``content``            chat, and llama.cpp in completions: ``[{"token", "logprob",
                       "top_logprobs": [{"token", "logprob"}]}]``
native                 llama.cpp ``/completion``: ``completion_probabilities`` as ``content``
native, older          ``[{"content", "probs": [{"tok_str", "prob"}]}]``
=====================  ===========================================================================
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from extproc.wire.dialects.base import Json, integer, number, objects, string


class TokenLogprob(NamedTuple):
    """One token as the model weighed it.

    ``logprob``: natural logarithm; None where the wire has null, which is what NaN becomes (and
    what the first token of an echoed prompt has, before which nothing stands). ``top``: the
    listed alternatives, best first as the server gave them. ``id``: -1 where it is not told.
    """

    token: str
    logprob: float | None
    top: tuple[tuple[str, float | None], ...] = ()
    id: int = -1


class TokenLogprobs(NamedTuple):
    """Those of the prompt, and those of what was generated. Of the first choice."""

    prompt: tuple[TokenLogprob, ...] = ()
    generated: tuple[TokenLogprob, ...] = ()


def of_documents(documents: Iterable[Any], generated_tokens: int = -1) -> TokenLogprobs:
    """What the JSON documents of one response (a body, or the chunks of a stream) say.

    ``generated_tokens`` splits an echoed completion: so many tokens, the last ones, are no part of
    the prompt; -1 when nothing was echoed. Servers that ignore ``echo`` list just so many.
    """
    prompt: list[TokenLogprob] = []
    generated: list[TokenLogprob] = []
    for document in documents:
        if type(document) is not dict:
            continue
        prompt += _ranked(document.get("prompt_logprobs"))
        for choice in objects(document.get("choices")):
            if integer(choice.get("index"), 0):
                continue
            prompt += _ranked(choice.get("prompt_logprobs"))
            logprobs = choice.get("logprobs")
            if type(logprobs) is dict:
                generated += _entries(logprobs.get("content"))
                generated += _lists(logprobs)
        generated += _entries(document.get("completion_probabilities"))
    if generated_tokens >= 0:
        echoed = max(0, len(generated) - generated_tokens)
        # vLLM tells those of an echoed prompt in both places.
        prompt, generated = prompt or generated[:echoed], generated[echoed:]
    return TokenLogprobs(tuple(prompt), tuple(generated))


def _entries(items: Any) -> Iterator[TokenLogprob]:
    for item in objects(items):
        if "probs" in item:  # llama.cpp before the names of chat
            top = tuple(
                (string(p.get("tok_str")), _log(p.get("prob"))) for p in objects(item["probs"])
            )
            token = string(item.get("content"))
            chosen = next((value for name, value in top if name == token), None)
            yield TokenLogprob(token, chosen, top)
        elif "prob" in item:  # llama.cpp after sampling: post_sampling_probs
            top = tuple(
                (string(t.get("token")), _log(t.get("prob")))
                for t in objects(item.get("top_probs"))
            )
            yield TokenLogprob(
                string(item.get("token")), _log(item["prob"]), top, integer(item.get("id"), -1)
            )
        else:
            top = tuple(
                (string(t.get("token")), number(t.get("logprob")))
                for t in objects(item.get("top_logprobs"))
            )
            yield TokenLogprob(
                string(item.get("token")),
                number(item.get("logprob")),
                top,
                integer(item.get("id"), -1),
            )


def _lists(logprobs: Json) -> Iterator[TokenLogprob]:
    values = logprobs.get("token_logprobs")
    if type(values) is not list:
        return
    tokens, tops = logprobs.get("tokens"), logprobs.get("top_logprobs")
    names = tokens if type(tokens) is list else []
    lists = tops if type(tops) is list else []
    for at, value in enumerate(values):
        top = lists[at] if at < len(lists) and type(lists[at]) is dict else {}
        yield TokenLogprob(
            string(names[at]) if at < len(names) else "",
            number(value),
            tuple((name, number(each)) for name, each in top.items()),
        )


def _ranked(items: Any) -> Iterator[TokenLogprob]:
    if type(items) is not list:
        return
    for item in items:
        if type(item) is not dict:
            yield TokenLogprob("", None)
            continue
        entries = [
            (key, entry)
            for key, entry in item.items()
            if type(entry) is dict and "logprob" in entry
        ]
        if not entries:
            yield TokenLogprob("", None)
            continue
        # The prompt's own token comes first, whatever its rank; the best ones follow.
        key, own = entries[0]
        best = sorted(entries, key=lambda each: integer(each[1].get("rank"), 1 << 30))
        yield TokenLogprob(
            string(own.get("decoded_token")),
            number(own.get("logprob")),
            tuple((string(e.get("decoded_token")), number(e.get("logprob"))) for _, e in best),
            int(key) if key.isdecimal() else -1,
        )


def _log(probability: Any) -> float | None:
    value = number(probability)
    if value is None or math.isnan(value) or value < 0:
        return None
    return math.log(value) if value > 0 else -math.inf
