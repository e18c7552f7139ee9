"""Special tokens that came out as text: padding, reserved ids, turn and tool markers."""

from __future__ import annotations

import re
from typing import ClassVar

from extproc.detect.asked import NOTHING_ASKED, Asked
from extproc.detect.detector import Setting
from extproc.detect.finding import Finding, Weight
from extproc.detect.tail import Tail
from extproc.wire import Channel

_NAMES = (
    "endoftext|startoftext|endofprompt|startoftranscript|notimestamps|nospeech|transcribe|translate"
    "|system|user|assistant|observation|developer|tool|end|start|begin|stop|return|call|channel"
    "|message|constrain|final|analysis|think|thought|image|audio|video|vision|box|code|text|prompt"
    "|pad|unk|bos|eos|sep|mask|cls|eot|eom|eod|dummy|placeholder|extra|reserved|unused|special|im"
)
"""Words that stand alone between ``<|`` and ``|>`` in some vocabulary; others are nicknames."""
_MARKED = re.compile(
    rf"<\|(?:[a-z]+_[a-z0-9_]*|(?:{_NAMES})(?:_?\d+)?|SPECIAL_\d+|[A-Z]+(?:_[A-Z]+)+)\|>|</?｜[^｜<>\n]{{1,40}}｜[^<>\n]{{0,40}}>"
    r"|<(?:start_of_turn|end_of_turn|unused\d{1,3}|reserved_special_token_\d+|extra_id_\d+"
    r"|(?:image|audio)_soft_token|custom_token_\d+|fim_(?:prefix|suffix|middle|pad)|file_sep"
    r"|repo_name|gh_stars|jupyter_\w+|SPECIAL_\d+)>|<\[\w+_never_used\w*\]>"
    r"|\[(?:control|unused|UNUSED_TOKEN)_?\d+\]|<<SYS>>|\[/?INST\]|\[gMASK\]"
    r"|\[\|(?:system|user|assistant|tool|endofturn)\|\]"
)
_CALL = re.compile(
    r"</?tool_call>|\[TOOL_CALLS\]|<function=|</function>|<tools?_use>|<invoke name=|</invoke>"
)
_OPENED = re.compile(r"<(?:parameter|function|invoke)\b[=\s>]")
_CLOSED = re.compile(r"</(?:parameter|function|invoke)>")
_PLAIN = re.compile(
    r"\[PAD\]|\[UNK\]|\[MASK\]|\[CLS\]|\[SEP\]|<pad>|<unk>|</?s>(?![^<]{0,80}</s>)|<eos>|<bos>|<mask>"
)
_THINK = re.compile(r"</?think>")
_QUOTES = "`'\"“”‘’«»()"
_ABOUT = re.compile(
    r"token|template|chatml|special|vocab|markup|delimiter|prompt format|strike|html|<\|", re.I
)


_EXPLAINED = re.compile(
    r"\b(?:templates?|delimit\w*|chatml|special tokens?|(?:prompt|chat) formats?|turn markers?)\b",
    re.I,
)
"""An answer that says what such tokens are for."""


class SpecialTokens:
    """``marked`` (occurrences): ``<|...|>`` and its like, outside code and quotes. Nobody writes
    them in running text, and an engine that works removes them. One is enough where it begins or
    ends the text, or a turn within it.
    ``plain``: ``[PAD]``, ``<unk>``, ``</s>``, which texts on language models may name.
    ``call``: the markup of a tool call in the text of an answer, with tools declared: what a parser
    should have taken out came through, mostly because the model broke it; or, whatever was
    declared, markup of a call that closes three times more than it opens.
    ``think``: reasoning closed more often than opened.
    Off where the prompt speaks of tokens or templates.
    Source: all leaks of the corpus have at least 3 plain or 1 marked ones.
    """

    __slots__ = (
        "_about",
        "_call",
        "_calls",
        "_closed",
        "_done",
        "_hinted",
        "_limits",
        "_marked",
        "_opened",
        "_plain",
    )

    name: ClassVar[str] = "special_tokens"
    stride: ClassVar[int] = 64

    OVERLAP = 48
    """A token may lie across a block's edge: this much of the block before is read again."""

    def __init__(
        self,
        marked: int = 2,
        plain: int = 4,
        think: int = 2,
        call: int = 2,
        asked: Asked = NOTHING_ASKED,
        tools: bool = False,
    ) -> None:
        self._limits = (marked, plain, think)
        self._call = call if tools else 0
        self._calls = 0
        self._about = asked.mentions(_ABOUT)
        self._marked = self._plain = self._opened = self._closed = 0
        self._done = self._hinted = False

    @classmethod
    def create(cls, setting: Setting) -> SpecialTokens:
        tools = bool(setting.request.tools) and setting.channel is Channel.CONTENT
        return cls(asked=setting.asked, tools=tools)

    def feed(self, tail: Tail, fresh: int) -> Finding | None:
        if self._done or self._about:
            return None
        text = tail.text
        window = text[-fresh - self.OVERLAP :]
        edge = len(window) - fresh
        marked, plain, think = self._limits
        bracket = "<" in window
        if not bracket and "[" not in window:
            return None
        if (
            "|" in window
            or "｜" in window
            or "INST]" in window
            or "MASK]" in window
            or "_" in window
            or "SYS" in window
            or "unused" in window
        ):
            for match in _MARKED.finditer(window):
                if (
                    match.end() > edge
                    and not _quoted(window, match)
                    and not _fenced(text, len(window) - match.start())
                ):
                    self._marked += 1
                    first = tail.total == len(window) - match.start()
                    if (
                        self._marked >= marked or first or _glued(window, match)
                    ) and not _EXPLAINED.search(text):
                        return self._found("marked", self._marked, marked, Weight.PROOF)
        if self._marked and not self._hinted:
            self._hinted = True
            return Finding(self.name, "marked", self._marked, marked, Weight.HINT)
        for match in _PLAIN.finditer(window):
            if (
                match.end() > edge
                and not _quoted(window, match)
                and not _fenced(text, len(window) - match.start())
            ):
                self._plain += 1
        if self._plain >= plain and self._plain * 60 >= tail.total - text.find("["):
            return self._found("plain", self._plain, plain, Weight.PROOF)
        if "</parameter>" in window or "</function>" in window or "</invoke>" in window:
            closed, opened = len(_CLOSED.findall(text)), len(_OPENED.findall(text))
            if closed - opened >= 3 and text.find("<") < 40:
                return self._found("call", closed - opened, 3, Weight.PROOF)
        if self._call and ("</" in window or "_call" in window.lower() or "<function" in window):
            for match in _CALL.finditer(window):
                self._calls += match.end() > edge and not _fenced(text, len(window) - match.start())
            if self._calls >= self._call:
                return self._found("call", self._calls, self._call, Weight.PROOF)
        if bracket and "think>" in window:
            for match in _THINK.finditer(window):
                if match.end() > edge and not _quoted(window, match):
                    if match.group()[1] == "/":
                        self._closed += 1
                    else:
                        self._opened += 1
            if self._closed - self._opened >= think:
                return self._found("think", self._closed - self._opened, think, Weight.PROOF)
        return None

    def finish(self, tail: Tail, reason: str) -> Finding | None:
        if self._done or self._about or not self._marked:
            return None
        end = tail.text.rstrip()[-self.OVERLAP :]
        for match in _MARKED.finditer(end):
            if (
                match.end() == len(end)
                and not _quoted(end, match)
                and not _EXPLAINED.search(tail.text)
            ):
                return self._found("marked", self._marked, self._limits[0], Weight.PROOF)
        return None

    def _found(self, reason: str, value: int, limit: int, weight: Weight) -> Finding:
        self._done = True
        return Finding(self.name, reason, value, limit, weight, f"{value} special tokens")


def _quoted(text: str, match: re.Match[str]) -> bool:
    before = text[match.start() - 1] if match.start() else ""
    after = text[match.end()] if match.end() < len(text) else ""
    return bool(before and before in _QUOTES) or bool(after and after in _QUOTES and before != ">")


def _glued(text: str, match: re.Match[str]) -> bool:
    # Directly after a word, or after a full stop and no blank behind: where one turn ended.
    before = text[match.start() - 1 : match.start()]
    after = text[match.end() : match.end() + 1]
    return before.isalnum() or (
        before in (".", "!", "?") and (not after or after in "<\n" or after.isalnum())
    )


def _fenced(text: str, back: int) -> bool:
    """Whether the place ``back`` characters before the end is in a code fence."""
    return text.count("```", 0, len(text) - back) % 2 == 1
