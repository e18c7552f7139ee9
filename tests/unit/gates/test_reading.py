"""settings.json and config.toml: defaults, refusals, places."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.gates.prompts import read_prompts
from extproc.gates.reading import (
    UnusableInput,
    json_lines,
    read_settings,
    read_targets,
    toml_lines,
)
from extproc.gates.settings import GateSettings


def settings(folder: Path, text: str) -> list[str]:
    path = folder / "settings.json"
    path.write_text(text)
    return _problems(lambda: read_settings(path), path)


def targets(folder: Path, text: str) -> list[str]:
    path = folder / "config.toml"
    path.write_text(text)
    return _problems(lambda: read_targets(path), path)


def _problems(read: Any, path: Path) -> list[str]:
    try:
        read()
    except UnusableInput as error:
        return [problem.replace(str(path), path.name) for problem in error.problems]
    return []


def test_an_empty_file_means_every_default(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("\ufeff{}")
    assert read_settings(path) == GateSettings()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "settings.json:1:1: is no JSON: Expecting value"),
        ('{"gate_config": }', "settings.json:1:17: is no JSON: Expecting value"),
        ("[]", "settings.json:1: must hold an object with the settings"),
        ('{"a": NaN}', "settings.json: is no JSON: NaN is no number of JSON"),
        (
            '{"gate_config": {}, "gate_config": {}}',
            "settings.json: is no JSON: 'gate_config' stands there twice; one of them would be "
            "ignored",
        ),
        (
            '{\n "gate_confg": {}}',
            "settings.json:2: gate_confg: no such setting; did you mean 'gate_config'?",
        ),
        (
            '{"gate_config": {\n\t"gate_2_numerical": {\n\t\t"top_k": 5,\n\t\t"logit": 1}}}',
            "settings.json:4: gate_config.gate_2_numerical.logit: no such setting; take it out, or "
            "use one of: enabled, logit_drift_tolerance, ",
        ),
        (
            '{"gate_config": {"gate_4_long_context": {"context_lengths": [4096,\n "x"]}}}',
            "settings.json:2: gate_config.gate_4_long_context.context_lengths[1]: ",
        ),
        (
            '{"gate_config": {"gate_3_golden_prompt": {"pass_rate_threshold": "1.0"}}}',
            "settings.json:1: gate_config.gate_3_golden_prompt.pass_rate_threshold: Input should "
            "be a valid number",
        ),
        (
            '{"rollback_conditions": ["gate_9"]}',
            "settings.json:1: rollback_conditions: no condition is called 'gate_9'; known: gate_1",
        ),
        (
            '{"gate_config": {"gate_1_model_load": {"checks": ["weights"]}}}',
            "settings.json:1: gate_config.gate_1_model_load.checks[0]: ",
        ),
    ],
)
def test_what_is_wrong_with_the_settings_is_said_with_its_place(
    tmp_path: Path, text: str, problem: str
) -> None:
    (found,) = settings(tmp_path, text)
    assert found.startswith(problem)


SERVICE = '[service.under_test]\nbase_url = "http://h:1"\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "config.toml: service: is missing, and has no default"),
        ("[service.under_test]\n", "config.toml:1: service.under_test.base_url: is missing"),
        ("[service.under_test\n", "config.toml:1:20: is no TOML: Expected ']'"),
        (SERVICE + 'base_url = "x"\n', "config.toml:3:15: is no TOML: Cannot overwrite a value"),
        (SERVICE.replace("http:", "ftp:"), 'config.toml:2: service.under_test.base_url: write "h'),
        (SERVICE.replace(":1", ":x"), 'config.toml:2: service.under_test.base_url: write "http'),
        (
            SERVICE + 'api_key = "sk-1"\n',
            "config.toml:3: service.under_test.api_key: no such setting; did you mean "
            "'api_key_env'?",
        ),
        (
            SERVICE + 'api_key_env = "sk-live-1"\n',
            "config.toml:3: service.under_test.api_key_env: must name an environment variable",
        ),
        (
            SERVICE.replace("//h", "//me:secret@h"),
            "config.toml:2: service.under_test.base_url: holds a user or password; name the key",
        ),
        (
            SERVICE + 'ca_file = "/nowhere"\n',
            "config.toml:3: service.under_test.ca_file: cannot be read: No such file",
        ),
        (SERVICE + "[matrix]\ncolour = 1\n", "config.toml:4: matrix.colour: no such setting; "),
        (SERVICE + '[matrix]\nfusion_x = "a"\n', "config.toml:4: matrix.fusion_x: must be bool"),
        (SERVICE + '[service.tp.four]\nbase_url = "http://h"\n', "config.toml:3: service.tp: 'f"),
        (
            SERVICE + '[rollback]\ncommand = "kubectl x"\n',
            "config.toml:4: rollback.command: Input should be a valid list",
        ),
    ],
)
def test_what_is_wrong_with_the_targets_is_said_with_its_place(
    tmp_path: Path, text: str, problem: str
) -> None:
    (found,) = targets(tmp_path, text)
    assert found.startswith(problem)


def test_a_key_that_was_put_into_the_file_is_not_repeated(tmp_path: Path) -> None:
    (found,) = targets(tmp_path, SERVICE + 'api_key_env = "sk-live-0123456789"\n')
    assert "sk-live" not in found


def test_families_of_the_matrix_may_have_any_ending(tmp_path: Path) -> None:
    text = "[matrix]\ndtype_router_bias = 'bf16'\nfusion_x = true\nparallelism_ep = 8\n"
    assert targets(tmp_path, SERVICE + text) == []


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match=r"none\.json: cannot be read: No such file"):
        read_settings(tmp_path / "none.json")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


@given(json_values, st.sampled_from([None, 1, "\t"]))
def test_every_place_of_any_json_has_its_line(value: Any, indent: Any) -> None:
    text = json.dumps(value, indent=indent)
    lines = json_lines(text)

    def walk(node: Any, place: tuple[Any, ...]) -> None:
        assert 1 <= lines[place] <= text.count("\n") + 1
        if place and isinstance(place[-1], str):
            assert json.dumps(place[-1]) in text.split("\n")[lines[place] - 1]
        if isinstance(node, dict | list):
            for key, child in node.items() if isinstance(node, dict) else enumerate(node):
                walk(child, (*place, key))

    walk(value, ())


def test_places_of_toml() -> None:
    text = 'a = 1\n[b.c]\n# [d]\n"e f" = 2\ng.h = 3\n[[i]]\n'
    assert toml_lines(text) == {
        ("a",): 1,
        ("b",): 2,
        ("b", "c"): 2,
        ("b", "c", "e f"): 4,
        ("b", "c", "g", "h"): 5,
        ("i",): 6,
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.jsonl", '{"prompt": "Hi", "expected": "OK"}\n\n{"prompt": "2", "expected": "4"}\n'),
        ("p.yaml", "- {prompt: Hi, expected: OK}\n- {prompt: '2', expected: '4'}\n"),
        ("p.json", '[{"prompt": "Hi", "expected": "OK"}, {"prompt": "2", "expected": "4"}]'),
        ("p.txt", "# mine\nHi => OK\n\n2 => 4\n"),
    ],
)
def test_golden_prompts_are_read_in_every_form(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert [(g.prompt, g.expected) for g in read_prompts(path)] == [("Hi", "OK"), ("2", "4")]


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("p.jsonl", '{"prompt": "Hi", "expected": "OK"}\n{x\n', ":2: is no JSON"),
        ("p.jsonl", '{"prompt": "Hi", "expected": "OK", "why": 1}\n', ":1: why: no such field"),
        ("p.jsonl", "[1]\n", ":1: must be an object"),
        ("p.txt", "Hi\n", ':1: write "prompt => expected answer"'),
        ("p.txt", "# nothing\n", ": holds no prompts"),
        ("p.yaml", "prompt: Hi\n", ": must be a list"),
        ("p.yaml", "- {prompt: Hi}\n", "expected"),
    ],
)
def test_a_bad_prompt_is_named_with_its_line(
    tmp_path: Path, name: str, text: str, place: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UnusableInput) as caught:
        read_prompts(path)
    assert place in str(caught.value)
