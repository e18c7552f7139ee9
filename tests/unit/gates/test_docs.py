"""The gates' page and examples name what exists, all of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from extproc.cli.gate import app
from extproc.gates.conditions import Condition
from extproc.gates.prompts import read_prompts
from tests.unit.gates.fake import Fake, Gates
from tests.unit.gates.reference import reference

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "gates.md").read_text()
EXAMPLES = ROOT / "examples" / "gates"


def options(command: str) -> set[str]:
    """Every option that a command has."""
    group: Any = typer.main.get_command(app)
    return {name for option in group.commands[command].params for name in option.opts}


def used(text: str) -> list[tuple[str, list[str]]]:
    """Every gate command in a text, with the options that it is given."""
    joined = text.replace("\\\n", " ")
    return [
        (command, re.findall(r"(?<![\w-])--[a-z-]+", rest))
        for command, rest in re.findall(
            r"semantic-extproc\s+gate\s+([a-z-]+)((?:\s+(?:--[a-z-]+|[^\s`#-][^\s`]*))*)", joined
        )
    ]


def test_the_page_ends_with_every_setting_as_the_models_have_it() -> None:
    assert PAGE.endswith(reference())


def test_the_page_names_every_condition_and_no_other() -> None:
    listed = re.findall(r"^\| `(gate_\d_\w+|unexplained\w+|dtype\w+)` \|", PAGE, re.M)
    assert listed[: len(Condition)] == [condition.value for condition in Condition]


@pytest.mark.parametrize(
    "path", [ROOT / "docs" / "gates.md", *sorted(EXAMPLES.glob("*.yml"))], ids=lambda p: p.name
)
def test_every_command_that_is_shown_exists_with_its_options(path: Path) -> None:
    found = used(path.read_text())
    assert found
    for command, given in found:
        assert set(given) <= options(command), (command, given)


def test_every_link_of_the_page_leads_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / link).exists(), link


@pytest.mark.parametrize("name", ["github-actions.yml", "gitlab-ci.yml"])
def test_the_examples_run_gates_1_to_3_and_publish_junit(name: str) -> None:
    text = (EXAMPLES / name).read_text()
    content = yaml.safe_load(text)
    ((command, given),) = used(text)
    assert command == "run"
    assert "--gates 1-3" in re.sub(r"\s+", " ", text)
    assert {"--settings", "--config", "--junit", "--markdown", "--state"} <= set(given)
    assert (EXAMPLES / "settings.json").exists()
    if name == "gitlab-ci.yml":
        job = content["release-gates"]
        assert job["artifacts"]["reports"]["junit"] == "gates.xml"
        assert job["stage"] in content["stages"]
        return
    (job,) = content["jobs"].values()
    assert True in content, "on: is read as true by YAML 1.1"
    assert all(("uses" in step) != ("run" in step) for step in job["steps"])
    upload = next(s for s in job["steps"] if "upload-artifact" in s.get("uses", ""))
    assert "gates.xml" in upload["with"]["path"]
    assert upload["if"] == "always()"


def test_the_prompt_that_the_page_shows_can_be_read(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```jsonl\n(.*?)```", PAGE, re.S)
    path = tmp_path / "prompts.jsonl"
    path.write_text(shown)
    (golden,) = read_prompts(path)
    assert golden.met("It is Paris, in France.")


def test_the_configuration_that_the_page_shows_can_be_read(gates: Gates) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", PAGE, re.S)
    assert len(blocks) == 2
    with Fake().running() as url:
        gates.serve(url)
        files = gates.files()
        config = gates.folder / "config.toml"
        config.write_text(config.read_text() + "\n".join(blocks))
        from extproc.gates.reading import read_targets

        targets = read_targets(config)
    assert files
    assert targets.rollback.command[0] == "kubectl"
    assert targets.sidecar is not None
