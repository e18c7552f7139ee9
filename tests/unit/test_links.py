"""Documents lead somewhere: links, anchors, commands, metrics, and the queries they show."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import typer.main
from markdown_it import MarkdownIt
from markdown_it.token import Token

from extproc.cli import app
from tests.observability.catalogue import known_series
from tests.observability.test_rules import RULES

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "envoy").rglob("*.md")]
)
COMMANDS = typer.main.get_command(app)


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@cache
def tokens(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text())


def links(page: Path) -> Iterator[str]:
    for token in tokens(page):
        for child in token.children or ():
            if child.type in ("link_open", "image"):
                yield str(child.attrs.get("href") or child.attrs.get("src"))


@cache
def anchors(page: Path) -> set[str]:
    """As GitHub makes them: lower case, signs dropped, spaces to hyphens, a number on a second."""
    found: dict[str, int] = {}
    out = set()
    for heading, inline in zip(tokens(page), tokens(page)[1:], strict=False):
        if heading.type == "heading_open":
            text = "".join(child.content for child in inline.children or ())
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            count = found.get(slug, 0)
            found[slug] = count + 1
            out.add(f"{slug}-{count}" if count else slug)
    return out


def blocks(page: Path, language: str) -> Iterator[str]:
    for token in tokens(page):
        if token.type == "fence" and token.info.strip() == language:
            yield token.content


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_to_something(page: Path) -> None:
    broken = []
    for link in links(page):
        target, _, anchor = unquote(link).partition("#")
        if re.match(r"[a-z]+:", target):
            continue  # elsewhere: not asked for in a test
        path = (page.parent / target).resolve() if target else page
        ours = path.is_relative_to(ROOT) and path.exists()
        if not ours or (anchor and anchor not in anchors(path)):
            broken.append(link)
    assert not broken


def test_every_page_is_in_the_index() -> None:
    index = ROOT / "docs/README.md"
    listed = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}
    assert {page for page in (ROOT / "docs").glob("*.md") if page != index} <= listed


def commands(page: Path) -> Iterator[list[str]]:
    text = page.read_text()
    shown = [
        line for block in (*blocks(page, "sh"), *blocks(page, "")) for line in block.splitlines()
    ]
    shown += re.findall(r"`(semantic-extproc [^`]*)`", text)
    for line in shown:
        words = re.split(r"\s+(?:#|&&|\|)\s", line.strip().removeprefix(".venv/bin/"))[0]
        if words.startswith("semantic-extproc "):
            yield shlex.split(words)[1:]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_and_option_exists(page: Path) -> None:
    for words in commands(page):
        command: Any = COMMANDS
        for word in words:
            if (below := getattr(command, "commands", None)) and not word.startswith("-"):
                assert word in below, words
                command = below[word]
            elif word.startswith("-") and word != "-":
                known = {name for option in command.params for name in option.opts}
                known |= {"--help", "-h", "--install-completion", "--version"}
                assert word.partition("=")[0] in known, words


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_metric_that_is_named_exists(page: Path) -> None:
    records = {rule["record"] for rule in RULES if "record" in rule}
    used = set(re.findall(r"(?:\b[a-z_]+:)?\bsemantic_extproc_\w+(?::\w+)?", page.read_text()))
    assert not used - known_series() - records
