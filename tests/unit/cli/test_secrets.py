"""What the commands print holds no secret, whatever is asked and whatever is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from extproc.cli import app

SECRET = "s3cr3t-v4lue"
ENVIRONMENT = {
    "SEMANTIC_EXTPROC_ADMIN_TOKEN": SECRET,
    "SEMANTIC_EXTPROC_FLEET__URL": f"redis://user:{SECRET}@127.0.0.1:1/0",
    "HOOK": SECRET,
}


def commands(of: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, command in getattr(of, "commands", {}).items():
        yield from commands(command, (*path, name))


@pytest.mark.parametrize("path", [*commands(typer.main.get_command(app))], ids=" ".join)
def test_help_shows_no_secret_of_the_environment(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*path, "--help"], env=ENVIRONMENT)
    assert result.exit_code == 0
    assert "Usage" in result.output
    assert SECRET not in result.output


def test_a_configuration_is_printed_without_its_secrets(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(
        "admin: {token_env: HOOK}\n"
        f"webhooks: [{{name: a, url: 'https://user:{SECRET}@127.0.0.1/{SECRET}?k={SECRET}',"
        " secret_env: HOOK}]\n"
    )
    result = CliRunner().invoke(app, ["config", str(file)], env=ENVIRONMENT)
    assert result.exit_code == 0, result.output
    assert "webhooks" in result.output
    assert SECRET not in result.output


@pytest.mark.parametrize(
    "text",
    [
        f"fleet: {{url: 'redis://user:{SECRET}@127.0.0.1:99999/0'}}",
        f"fleet: {{url: 'redis://user:{SECRET}@[::1'}}",
        f"fleet: {{url: 'http://user:{SECRET}@127.0.0.1'}}",
        f"fleet: {{url: [{SECRET}]}}",
        f"fleet: {{url: redis://127.0.0.1, password: {SECRET}}}",
        f"fleet: '{SECRET}'",
        f"webhooks: [{{name: a, url: 'ftp://127.0.0.1/{SECRET}'}}]",
        f"webhooks: [{{name: a, url: 'https://user:{SECRET}@[::1/'}}]",
        f"webhooks: [{{name: a, url: https://127.0.0.1/, secret: {SECRET}}}]",
        f"webhooks: {{url: '{SECRET}'}}",
        f"admin: {{token: {SECRET}}}",
        f"admin: {{token_file: /nonexistent, token_env: {{{SECRET}: 1}}}}",
    ],
)
def test_what_is_wrong_is_told_without_the_value(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    result = CliRunner().invoke(app, ["config", str(file)])
    assert result.exit_code == 2 or "fleet" in text
    assert SECRET not in result.output + result.stderr


def test_a_broken_environment_is_told_without_its_value() -> None:
    broken = {"SEMANTIC_EXTPROC_FLEET": f'{{"url": "redis://u:{SECRET}@h", '}
    result = CliRunner().invoke(app, ["config"], env=broken)
    assert result.exit_code == 2
    assert SECRET not in result.output + result.stderr


def test_who_does_not_answer_is_named_without_a_password() -> None:
    url = f"http://user:{SECRET}@127.0.0.1:1"
    for command in (
        ["status", "--admin", url],
        ["quarantine", "a", "--reason", "x", "--admin", url],
        ["health", "--admin", url],
        ["audit", url],
    ):
        result = CliRunner().invoke(app, command, env=ENVIRONMENT)
        assert result.exit_code != 0
        assert SECRET not in result.output + result.stderr
