"""A configuration is taken whole, or refused with every problem and its line."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from extproc.cli import app
from extproc.config import ConfigError, Settings, load, parse


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(text, "x.yaml")
    return caught.value.problems


def test_an_empty_file_is_all_defaults() -> None:
    assert parse("", "x.yaml") == Settings()


def test_every_problem_is_told_at_once_each_with_its_line() -> None:
    text = """\
units:
  - id: a
    colour: red
  - id: b
    verified: perhaps
hold:
  tokens: 0
bogus: 1
"""
    found = problems(text)
    lines = sorted(problem.partition(": ")[0] for problem in found)
    assert lines == ["x.yaml:3", "x.yaml:5", "x.yaml:7", "x.yaml:8"]
    assert "x.yaml:3: units[0].colour: no such setting" in found


def test_two_units_with_one_id_are_refused_at_the_second() -> None:
    assert problems("units:\n- id: a\n- id: b\n- id: a\n") == [
        "x.yaml:4: units[2].id: 'a' is already the id of units[0]"
    ]


def test_a_fallback_must_be_another_unit_and_a_cluster_has_one_owner() -> None:
    text = "units:\n- {id: a, fallback: [a, z], clusters: [c]}\n- {id: b, clusters: [c]}\n"
    assert problems(text) == [
        "x.yaml:2: units[0].fallback: 'a' is no other unit",
        "x.yaml:2: units[0].fallback: 'z' is no other unit",
        "x.yaml:3: units[1].clusters: 'c' belongs to 'a' already",
    ]


def test_one_configuration_under_two_names_is_refused() -> None:
    unit = "{id: %s, model: m, engine: vllm, engine_version: '0.9', release: %s}"
    text = f"units:\n- {unit % ('a', 'r1')}\n- {unit % ('b', 'r1')}\n"
    assert problems(text) == [
        "x.yaml:3: units[1]: 'b' is the configuration of units[0] ('a') under another name: "
        "what fails on one fails on both"
    ]
    parse(text.replace("release: r1}\n- ", "release: r2}\n- "), "x.yaml")


def test_a_key_that_stands_twice_is_refused() -> None:
    assert problems("hold: {}\nadmin: {}\nhold: {}\n") == [
        "x.yaml:3: 'hold' stands here twice; one of them would be ignored"
    ]


def test_broken_yaml_is_told_with_line_and_column() -> None:
    assert problems("units:\n  - {id: a\n")[0].startswith("x.yaml:3:1: ")


@pytest.mark.parametrize(
    "text",
    [
        "grpc: {address: nowhere}",
        "grpc: {address: 'unix://relative'}",
        "grpc: {address: ':99999'}",
        "grpc: {tls: {cert_file: /no/such/file, key_file: /no/such/file}}",
        "paths: {/chat: no.such.dialect}",
        "detectors_off: [no-such-detector]",
        "hints: [salad.no_such_reason]",
        "ordinary: [no-such-detector]",
        "thresholds: {repetition.no_such: 1}",
        "thresholds: {whitespace.mid: -1}",
        "baselines: {m: {ordinary: [no-such-detector]}}",
        "units: [{id: a, thresholds: {salad: 1}}]",
        "units: [{id: 'a b'}]",
        "context_classes: [{name: a, up_to_bytes: 10}, {name: b, up_to_bytes: 5}]",
        "- a list",
        "1: 2",
    ],
)
def test_wrong_values_are_refused_with_a_place(text: str) -> None:
    assert problems(text)[0].startswith("x.yaml:1: ")


@given(st.text())
def test_any_text_is_settings_or_problems(text: str) -> None:
    with contextlib.suppress(ConfigError):
        parse(text, "x.yaml")


def test_the_environment_wins_over_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEMANTIC_EXTPROC_HOLD__TOKENS", "48")
    found = parse("hold: {tokens: 20, gap: 0.5}", "x.yaml")
    assert (found.hold.tokens, found.hold.gap) == (48, 0.5)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "none.yaml")


def test_the_command_checks_a_file(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("hold: {tokens: 5}\n")
    good = CliRunner().invoke(app, ["config", str(file)])
    assert (good.exit_code, "tokens: 5" in good.output) == (0, True)
    file.write_text("hold: {tokns: 5}\n")
    bad = CliRunner().invoke(app, ["config", str(file)])
    assert bad.exit_code == 2
    assert "hold.tokns: no such setting" in bad.output


def test_problems_come_in_the_order_of_their_lines() -> None:
    text = "bogus: 1\nhold: {tokens: 0}\ngrpc: {address: x}\nunits:\n- {id: a, colour: red}\n"
    assert [problem.split(":")[1] for problem in problems(text)] == ["1", "2", "3", "5"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hld: {}", "hld: no such setting; did you mean hold?"),
        (
            "units: [{id: a, verifed: true}]",
            "units[0].verifed: no such setting; did you mean verif",
        ),
        (
            "grpc: {tls: {cert_fil: x}}",
            "grpc.tls.cert_fil: no such setting; did you mean cert_file?",
        ),
        ("xyzzy: 1", "xyzzy: no such setting"),
    ],
)
def test_a_misspelt_setting_is_told_with_the_right_one(text: str, said: str) -> None:
    assert any(said in problem for problem in problems(text)), problems(text)
    assert ("did you mean" in said) == any("did you mean" in problem for problem in problems(text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("units:\n- id: a\n   hosts: [x]\n", "x.yaml:3:"),
        ("units:\n- id: a\n  fallback: [b]\n   hosts: [x]\n", "indented as those"),
        ("\tunits: []\n", "by spaces, not by tabs"),
        ("hold: gap: 1\n", "wants quotes"),
    ],
)
def test_what_a_yaml_parser_says_is_explained(text: str, said: str) -> None:
    (problem,) = problems(text)
    assert said in problem


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SEMANTIC_EXTPROC_HOLD__GAP", "x", "environment: SEMANTIC_EXTPROC_HOLD__GAP: hold.gap: "),
        (
            "SEMANTIC_EXTPROC_HOLD__GPA",
            "1",
            "SEMANTIC_EXTPROC_HOLD__GPA: hold.gpa: no such",
        ),
        ("SEMANTIC_EXTPROC_HOLD", '{"gap": "x"}', "environment: SEMANTIC_EXTPROC_HOLD: hold.gap: "),
        ("SEMANTIC_EXTPROC_HOLD", '{"bytes": 65536}', "x.yaml:2: hold.tokens: "),
        ("SEMANTIC_EXTPROC_HOLD_GAP", "1", "two underscores part a group from its setting: SEM"),
    ],
)
def test_a_problem_of_the_environment_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(name, value)
    fault = "tokens: 0" if "x.yaml" in said else "gap: 0.3"
    (problem,) = problems(f"hold:\n  {fault}\n")
    assert said in problem


def test_variables_that_kubernetes_makes_for_a_service_are_no_mistake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("PORT", "SERVICE_HOST", "SERVICE_PORT_GRPC", "PORT_18080_TCP_ADDR", "ADMIN_URL"):
        monkeypatch.setenv(f"SEMANTIC_EXTPROC_{name}", "x")
    assert parse("", "x.yaml") == Settings()


def test_the_command_takes_the_file_as_other_commands_do(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("hold: {tokens: 7}\n")
    for arguments in ([str(path)], ["--config", str(path)], ["-c", str(path)]):
        result = CliRunner().invoke(app, ["config", *arguments])
        assert result.exit_code == 0
        assert "tokens: 7" in result.stdout
    assert CliRunner().invoke(app, ["config", str(path), "-c", str(path)]).exit_code == 2


def bomb(first: str, entry: str) -> str:
    """Nine of the level before, at each of twelve levels."""
    lines = [f"a0: &a0 {first}"]
    for level in range(1, 12):
        nine = ", ".join([f"*a{level - 1}"] * 9)
        lines.append(f"a{level}: &a{level} {entry.format(nine)}")
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        bomb("[x]", "[{}]"),
        bomb("{x: 1}", "{{<<: [{}]}}"),
        bomb("[x]", "[{}]").replace("a0:", "units:", 1),
    ],
)
def test_a_bomb_of_aliases_does_not_go_off(text: str) -> None:
    (problem,) = problems(text)
    assert problem.startswith("x.yaml: its aliases stand for more than")


@pytest.mark.parametrize(
    "text", ["a: &a [*a]", "units: &a\n  - *a", "grpc: &a {address: *a}", "hold: &a {<<: [*a]}"]
)
def test_a_value_that_is_part_of_itself_is_refused(text: str) -> None:
    (problem,) = problems(text)
    assert "a value is part of itself" in problem


@pytest.mark.parametrize("text", ["[" * 5000, "a: " + "[" * 900 + "]" * 900, "- " * 3000])
def test_a_file_without_a_bottom_is_refused(text: str) -> None:
    assert problems(text)


def test_aliases_are_fine() -> None:
    settings = parse("units:\n- &a {id: a, model: m}\n- {<<: *a, id: b, engine: x}", "x.yaml")
    assert [unit.model for unit in settings.units] == ["m", "m"]
