"""Public repetition and quality guards, written anew from their published rules, for comparison.

Each takes the text of one answer and its tokens (deltas where they were streamed, else words and
signs as a byte-pair vocabulary cuts them, roughly) and says whether it would have alarmed.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Sequence

Guard = Callable[[str, Sequence[str]], bool]

_TOKEN = re.compile(r" ?[A-Za-z]{1,6}| ?\d{1,3}| ?([^\sA-Za-z\d])\1*|\n+| +(?=\S)|\s+|.", re.DOTALL)


def tokens_of(text: str) -> list[str]:
    """A rough cut into tokens."""
    return [match.group() for match in _TOKEN.finditer(text)]


def _tail_repeats(items: Sequence[str], least: int, most: int, times: int) -> bool:
    """Whether at any point the tail is one pattern of ``least`` to ``most`` items, repeated."""
    runs = [0] * (most + 1)
    for at in range(len(items)):
        for size in range(least, most + 1):
            if at >= size and items[at] == items[at - size]:
                runs[size] += 1
                if runs[size] >= size * (times - 1):
                    return True
            else:
                runs[size] = 0
    return False


def vllm_8_1_4(text: str, tokens: Sequence[str]) -> bool:
    """vLLM ``repetition_detection``: patterns of 1 to 8 tokens, 4 times."""
    return _tail_repeats(tokens, 1, 8, 4)


def vllm_1_1_32(text: str, tokens: Sequence[str]) -> bool:
    """vLLM ``repetition_detection``: one token 32 times."""
    return _tail_repeats(tokens, 1, 1, 32)


def llama_cpp(text: str, tokens: Sequence[str]) -> bool:
    """llama.cpp's proposed loop guard: the tail is a pattern of 16 to 1024 characters, 4 times."""
    for end in range(64, len(text) + 64, 64):
        part = text[max(0, end - 4096) : end]
        gram = part[-16:]
        at = part.rfind(gram, 0, len(part) - 16)
        while at >= 0:
            size = len(part) - 16 - at
            if 16 <= size <= 1024 and part.endswith(part[-size:] * 4):
                return True
            if size > 1024:
                break
            at = part.rfind(gram, 0, at + 15)
    return False


def gemini_cli(text: str, tokens: Sequence[str]) -> bool:
    """Gemini CLI: a chunk of 50 characters 10 times with gaps of 250 at most, outside fences."""
    text = re.sub(r"```.*?(```|\Z)", "", text, flags=re.DOTALL)
    places: dict[str, list[int]] = {}
    for at in range(len(text) - 49):
        found = places.setdefault(text[at : at + 50], [])
        found.append(at)
        if len(found) >= 10 and (found[-1] - found[-10]) / 9 <= 250:
            return True
    return False


def hermes(text: str, tokens: Sequence[str]) -> bool:
    """Hermes: from 400 characters on, a window of 60 that stands 5 times and covers half."""
    if len(text) < 400:
        return False
    counts = Counter(text[at : at + 60] for at in range(len(text) - 59))
    return any(count >= 5 and count * 60 >= 0.5 * len(text) for count in counts.values())


def whisper(text: str, tokens: Sequence[str]) -> bool:
    """Whisper: zlib packs the text more than 2.4 times."""
    raw = text.encode("utf-8", "replace")
    return bool(raw) and len(raw) / len(zlib.compress(raw)) > 2.4


def gopher(text: str, tokens: Sequence[str]) -> bool:
    """Gopher's repetition filters (arXiv 2112.11446, table A1)."""
    lines = [line for line in text.split("\n") if line.strip()]
    if lines and 1 - len(set(lines)) / len(lines) > 0.30:
        return True
    words = text.split()
    size = sum(map(len, words))
    if not size:
        return False
    for n, limit in ((2, 0.20), (3, 0.18), (4, 0.16)):
        grams = Counter(zip(*(words[i:] for i in range(n)), strict=False))
        if grams:
            gram, count = grams.most_common(1)[0]
            if count > 1 and count * sum(map(len, gram)) / size > limit:
                return True
    for n, limit in ((5, 0.15), (6, 0.14), (7, 0.13), (8, 0.12), (9, 0.11), (10, 0.10)):
        seen: set[tuple[str, ...]] = set()
        covered: set[int] = set()
        for at in range(len(words) - n + 1):
            gram = tuple(words[at : at + n])
            if gram in seen:
                covered.update(range(at, at + n))
            seen.add(gram)
        if sum(len(words[at]) for at in covered) / size > limit:
            return True
    return False


def litellm(text: str, tokens: Sequence[str]) -> bool:
    """LiteLLM: 100 identical chunks in a row, those of one or two characters ignored."""
    run, last = 0, ""
    for token in tokens:
        run = run + 1 if token == last else 1
        last = token
        if run >= 100 and len(token) > 2:
            return True
    return False


GUARDS: dict[str, Guard] = {
    "vLLM 8/1/4": vllm_8_1_4,
    "vLLM 1/1/32": vllm_1_1_32,
    "llama.cpp proposal": llama_cpp,
    "Gemini CLI": gemini_cli,
    "Hermes": hermes,
    "Whisper zlib": whisper,
    "Gopher": gopher,
    "LiteLLM": litellm,
}
