"""``--help`` teaches: every command ends with lines that work when they are copied."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from extproc.cli import app
from extproc.cli.examples import EXAMPLES

GROUP: Any = typer.main.get_command(app)


def commands() -> Iterator[list[str]]:
    for name, command in GROUP.commands.items():
        inner = getattr(command, "commands", {})
        yield from ([name, word] for word in inner)
        if not inner:
            yield [name]


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_every_command_shows_its_exit_codes_or_cannot_fail_and_examples(command: list[str]) -> None:
    shown = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200"}).stdout
    assert "Examples:" in shown
    for line in EXAMPLES[command[-1]]:
        assert line in shown
    assert "Exit codes:" in shown or command == ["detectors"]
    assert "\x1b" not in shown


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_an_example_is_taken_by_the_command_it_is_of(line: str) -> None:
    words = shlex.split(line)
    words = words[words.index("semantic-extproc") + 1 :]
    for stop in ("|", ">"):
        words = words[: words.index(stop)] if stop in words else words
    command: Any = GROUP
    while hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
    command.make_context(name, words)  # raises what a mistake is answered with


@pytest.mark.parametrize(
    "command", [["inspect", "-"], ["detectors"], ["gate", "releases"]], ids=" ".join
)
def test_json_is_asked_for_in_one_way_everywhere(command: list[str]) -> None:
    runner = CliRunner()
    long = runner.invoke(app, [*command, "--output", "json"], input='{"choices": []}')
    short = runner.invoke(app, [*command, "--json"], input='{"choices": []}')
    assert short.stdout == long.stdout
    assert short.stdout.startswith("{")
