"""The command: what it prints, and what it ends with."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from extproc.cli import app
from extproc.demo.envoy import standalone
from extproc.mesh.audit import CATALOGUE, Unusable, audit
from tests.unit.audit.good import Config, good
from tests.unit.audit.spoilt import SPOILT

SHIPPED = str(standalone() / "envoy.yaml")


def run(*arguments: str, stdin: str = "") -> Any:
    return CliRunner().invoke(app, ["audit", *arguments], input=stdin)


def written(folder: Path, id: str) -> str:
    """A file with one fault."""
    config = good()
    SPOILT[id](config)
    path = folder / "envoy.yaml"
    path.write_text(yaml.safe_dump(config))
    return str(path)


def test_a_good_configuration_ends_with_0() -> None:
    for arguments in ([], ["--strict"], ["--json"], ["--json", "--strict"]):
        assert run(SHIPPED, *arguments).exit_code == 0


def test_the_shape_of_the_json_stays(tmp_path: Path) -> None:
    path = written(tmp_path, "update-merge-window")
    result = run(path, "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1
    assert found.keys() == {
        *("version", "source", "envoy", "questions", "findings", "notes", "summary"),
    }
    assert found["version"] == 1
    assert found["source"] == path
    for question in found["questions"]:
        assert question.keys() == {"id", "question", "answer", "why", "evidence"}
        assert question["answer"] in ("yes", "no", "cannot-tell")
    assert [question["id"] for question in found["questions"]] == [
        *("coverage", "detection", "failover"),
    ]
    first = found["findings"][0]
    assert first.keys() == {"id", "severity", "where", "file", "line", "why", "fix"}
    assert first["id"] == "update-merge-window"
    assert first["where"] == (
        "static_resources.clusters[0].common_lb_config.update_merge_window (cluster llm)"
    )
    assert "update_merge_window: 0s" in first["fix"]
    assert found["summary"] == {"error": 1, "warning": 0, "info": 1}


def test_strict_fails_on_warnings_too(tmp_path: Path) -> None:
    path = written(tmp_path, "marker-not-removed")
    assert run(path).exit_code == 0
    assert run(path, "--strict").exit_code == 1


def test_text_for_people_has_no_colours_when_it_is_piped(tmp_path: Path) -> None:
    text = run(written(tmp_path, "max-retries")).stdout
    assert "\x1b" not in text
    assert "error  max-retries" in text
    assert "clusters[0].circuit_breakers.thresholds[0].max_retries (cluster llm)" in text
    assert "1 error, 1 info" in text


def test_standard_input_is_read() -> None:
    assert run("-", stdin=Path(SHIPPED).read_text()).exit_code == 0


def test_the_documents_example_is_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[3] / "docs" / "audit.md").read_text()
    example = page[page.index("error  max-retries") :]
    example = example[: example.index("```")]
    shipped = Path(SHIPPED).read_text()
    Path("envoy.yaml").write_text(shipped.replace("        max_retries: 1000\n", ""))
    text = run("envoy.yaml").stdout
    assert example.strip() in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("static_resources: [", "envoy.yaml:2:1"),
        ('{"configs": [', "envoy.yaml:1:"),
        ("static_resources: {clusters: 5}", "static_resources.clusters: a list is expected"),
        ("static_resources: {listeners: [5]}", "static_resources.listeners[0]: a mapping"),
        ("units: []", "the sidecar's own settings; name them with --config"),
        ("", "holds nothing"),
        ("just words", "holds a str"),
        ("apiVersion: v1\nkind: Pod", "Pod"),
        ("a: &a [*a]", "envoy.yaml"),
        ("a: 1\x00", "envoy.yaml"),
    ],
)
def test_what_cannot_be_used_is_said_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "envoy.yaml"
    path.write_text(text)
    result = run(str(path), "--json")
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_a_value_of_the_wrong_kind_is_said_with_its_place(tmp_path: Path) -> None:
    config = good()
    config["static_resources"]["clusters"][0]["common_lb_config"]["update_merge_window"] = "soon"
    path = tmp_path / "envoy.yaml"
    path.write_text(yaml.safe_dump(config))
    result = run(str(path))
    assert result.exit_code == 2
    assert 'common_lb_config.update_merge_window: a duration such as "0.5s"' in result.stderr


def test_files_and_addresses_that_are_not_there_are_said(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.yaml")
    assert "No such file" in run(missing).stderr
    assert "no answer" in run("http://127.0.0.1:1").stderr
    assert "no sidecar answers" in run(SHIPPED, "--sidecar", "http://127.0.0.1:1").stderr
    binary = tmp_path / "envoy.bin"
    binary.write_bytes(b"\xff\xfe\x00")
    assert "no UTF-8 text" in run(str(binary)).stderr
    for source in (missing, "http://127.0.0.1:1", str(binary)):
        assert run(source).exit_code == 2


def test_the_catalogue_is_listed() -> None:
    text = run("--list").stdout
    assert all(check.id in text for check in CATALOGUE)
    listed = json.loads(run("--list", "--json").stdout)
    assert [entry["id"] for entry in listed] == [check.id for check in CATALOGUE]
    assert all(check.id in run("--list", "--markdown").stdout for check in CATALOGUE)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    found = [path] if path else []
    if isinstance(value, dict):
        for key, entry in value.items():
            found += places(entry, (*path, key))
    if isinstance(value, list):
        for at, entry in enumerate(value):
            found += places(entry, (*path, at))
    return found


PLACES = places(good())
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 1 << 40),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["0s", "1.5s", [], {}, [[]], {"value": {}}, {"@type": 7}, [None]]),
)


@settings(max_examples=300)
@given(st.lists(st.tuples(st.sampled_from(PLACES), JUNK), min_size=1, max_size=4))
def test_no_document_is_answered_with_a_traceback(changes: list[tuple[Any, Any]]) -> None:
    config: Config = good()
    for path, junk in changes:
        inner: Any = config
        try:
            for part in path[:-1]:
                inner = inner[part]
            inner[path[-1]] = junk
        except (LookupError, TypeError):
            continue  # an earlier change has taken the place away
    with suppress(Unusable):
        audit([config], "test")
