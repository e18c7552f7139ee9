"""The inspect command: its output, its exit codes, its splits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from extproc.cli import app
from tests.unit.wire.samples.build import delta, sse

PROSE = (
    "The ferry leaves twice a day from the old pier, and in winter only when the wind allows. "
    "Bring a coat, since the upper deck has no shelter and the crossing takes most of an hour."
)


def exchange(name: str, body: bytes, content_type: str = "text/event-stream") -> dict[str, Any]:
    return {
        "id": name,
        "request": {"method": "POST", "path": "/v1/chat/completions"},
        "response": {
            "status": 200,
            "headers": {"content-type": content_type},
            "body": body.decode(),
        },
    }


def stream(*pieces: str) -> bytes:
    return sse(*(delta(content=piece) for piece in pieces), delta(finish="stop"))


CLEAN = exchange("clean", stream(*(f"{word} " for word in PROSE.split())))
CORRUPT = exchange("corrupt", stream(*"!" * 64))


def run(*args: str, stdin: str | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["inspect", *args], input=stdin)
    return result.exit_code, result.stdout, result.stderr


def write(path: Path, *lines: object) -> str:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n")
    return str(path)


def test_one_json_line_an_exchange_in_order(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", CORRUPT, CLEAN)
    code, out, err = run(path, "--output", "json")
    first, second = map(json.loads, out.splitlines())
    assert (code, err) == (1, "")
    assert second == {"id": "clean", "verdict": "clean", "findings": [], "first_token": None}
    assert list(first) == ["id", "verdict", "findings", "first_token"]
    assert (first["id"], first["verdict"]) == ("corrupt", "corrupt")
    assert 0 < first["first_token"] <= 64
    for finding in first["findings"]:
        assert list(finding) == ["detector", "reason", "value", "threshold"]


def test_the_exit_code_tells_clean_corrupt_and_unusable(tmp_path: Path) -> None:
    clean = write(tmp_path / "clean.jsonl", CLEAN)
    corrupt = write(tmp_path / "corrupt.jsonl", CORRUPT)
    broken = write(tmp_path / "broken.jsonl", CORRUPT, "{nonsense", CLEAN)
    assert run(clean)[0] == 0
    assert run(clean, corrupt)[0] == 1
    assert run(broken)[0] == 2
    assert run(str(tmp_path / "missing.jsonl"))[0] == 2
    assert run(str(tmp_path))[0] == 2
    assert run()[0] == 2


def test_a_bad_line_is_reported_and_the_rest_inspected(tmp_path: Path) -> None:
    bad = {**CLEAN, "response": {"status": 200}}
    path = write(tmp_path / "x.jsonl", CLEAN, "{nonsense", bad, CORRUPT)
    code, out, err = run(path, "-o", "json")
    assert code == 2
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["clean", "corrupt"]
    second, third = err.splitlines()
    assert second.startswith(f"{path}:2: ")
    assert third.startswith(f"{path}:3: response.body: ")


def test_standard_input_is_read() -> None:
    code, out, _ = run("-", "-o", "json", stdin=json.dumps(CORRUPT) + "\n")
    assert (code, json.loads(out)["id"]) == (1, "corrupt")
    code, out, _ = run("-", "-o", "json", stdin=CORRUPT["response"]["body"])
    assert (code, json.loads(out)["verdict"]) == (1, "corrupt")


@pytest.mark.parametrize("split", ["1", "7", "1000"])
def test_splits_change_no_verdict(tmp_path: Path, split: str) -> None:
    path = write(tmp_path / "x.jsonl", CLEAN, CORRUPT)
    whole = run(path, "-o", "json")
    assert run(path, "-o", "json", "--split", split) == whole
    assert run(path, "-o", "json", "--split", split, "--seed", "3") == whole


def test_values_that_json_cannot_hold_are_null(tmp_path: Path) -> None:
    body = b'{"data": [{"index": 0, "embedding": [1e30, NaN, Infinity, 0.5]}]}'
    path = tmp_path / "x.json"
    path.write_bytes(body)
    _, out, _ = run(str(path), "-o", "json")
    json.loads(out, parse_constant=lambda literal: pytest.fail(literal))
    assert json.loads(out)["verdict"] == "corrupt"


def test_the_table_names_what_is_wrong_and_sums_up(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", CORRUPT, CLEAN)
    code, out, _ = run(path)
    assert code == 1
    assert "corrupt" in out
    assert "2 inspected: 1 corrupt, 1 clean" in out
    assert "\n" + "clean" not in out
    assert "\n" + "clean" in run(path, "--all")[1]
    assert "ferry" not in run(path, "--all")[1]


def test_a_detector_can_be_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", CORRUPT)
    _, out, _ = run(path, "-o", "json", "--off", "repetition")
    assert "repetition" not in {f["detector"] for f in json.loads(out)["findings"]}
    code, _, err = run(path, "--off", "nonsense")
    assert code == 2
    assert "nonsense" in err


def test_the_catalogue_is_listed() -> None:
    table = CliRunner().invoke(app, ["detectors"])
    lines = CliRunner().invoke(app, ["detectors", "--output", "json"]).stdout.splitlines()
    names = [json.loads(line)["name"] for line in lines]
    assert table.exit_code == 0
    assert len(names) == len(set(names)) > 5
    assert all(name in table.stdout for name in names)


def of_model(name: str, exchange: dict[str, Any], model: str) -> dict[str, Any]:
    request = {**exchange["request"], "body": {"model": model, "messages": []}}
    return {**exchange, "id": name, "request": request}


def verdict(*args: str) -> list[str]:
    return [json.loads(line)["verdict"] for line in run(*args, "--output", "json")[1].splitlines()]


def test_a_configuration_says_how_its_units_and_models_are_judged(tmp_path: Path) -> None:
    config = tmp_path / "extproc.yaml"
    config.write_text(
        "paths: {/llm/talk: openai.chat}\n"
        "units: [{id: mild, detectors_off: [repetition, recurrence, deltas]}, {id: plain}]\n"
        "baselines: {stammerer: {ordinary: [repetition, recurrence, deltas]}}\n"
    )
    path = write(
        tmp_path / "x.jsonl",
        CORRUPT,
        of_model("m", CORRUPT, "stammerer"),
        {**CORRUPT, "request": {"method": "POST", "path": "/llm/talk"}},
    )
    assert verdict(path) == ["corrupt", "corrupt", "corrupt"]
    assert verdict(path, "--config", str(config)) == ["corrupt", "unchecked", "corrupt"]
    assert verdict(path, "--config", str(config), "--unit", "mild")[0] == "clean"
    code, _, err = run(path, "--config", str(config), "--unit", "other")
    assert code == 2
    assert "there are: mild, plain" in err


def test_a_baseline_is_learnt_and_can_be_used(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.jsonl",
        *(of_model(str(n), CORRUPT, "stammerer") for n in range(5)),
        *(of_model(str(n), CLEAN, "speaker") for n in range(5)),
    )
    result = CliRunner().invoke(app, ["baseline", path])
    assert result.exit_code == 0, result.stderr
    assert "speaker: 5 answers: nothing that stands out" in result.stderr
    config = tmp_path / "extproc.yaml"
    config.write_text(result.stdout)
    assert set(verdict(path, "--config", str(config))) == {"unchecked", "clean"}


def test_a_baseline_of_no_model_is_asked_for_its_name(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", *[CORRUPT] * 3)
    result = CliRunner().invoke(app, ["baseline", path])
    assert (result.exit_code, result.stdout) == (2, "baselines: {}\n")
    assert "3 requests name no model" in result.stderr
    result = CliRunner().invoke(app, ["baseline", path, "--model", "m"])
    assert "m:\n    ordinary:" in result.stdout


def test_an_id_moves_no_cursor(tmp_path: Path) -> None:
    names = ("\x1b[31mred\x07", "half \ud800", "two\nlines", "[bold]x[/]")
    path = write(tmp_path / "x.jsonl", *({**CORRUPT, "id": name} for name in names))
    code, out, _ = run(path)
    assert code == 1
    assert all(line.isprintable() for line in out.splitlines())
    assert "\ufffd[31mred\ufffd" in out
    assert "[bold]x[/]" in out
    code, out, _ = run(path, "--output", "json")
    assert [json.loads(line)["id"] for line in out.splitlines()] == list(names)
